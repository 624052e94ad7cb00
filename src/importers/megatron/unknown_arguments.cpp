// Lists argument names unrelated to the model, and arguments that Megatron stores in every run.
#include "importers/megatron/unknown_arguments.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/printable.h"
#include "importers/megatron/arguments.h"
#include "importers/megatron/flags/flags.h"

namespace trireme::megatron {
namespace {

constexpr std::size_t most_listed = 12;

// Prefixes of names that belong to other programs, to launching, monitoring and saving, or to
// models refused by another argument (Mamba, muP, YaRN, multi-token prediction ...).
constexpr const char* beginnings =
    "inference_ rl_ grpo_ langrl_ retriever_ indexer_ ict_ biencoder_ dino_ vision_ img_ "
    "retro_ swin_ kd_ sft_ fault_injector_ error_injection_ flight_recorder_ inprocess_ ft_ "
    "log_ logger_ logits_load_ logits_save_ save_ wandb_ pytorch_profiler_ ckpt_ dist_ckpt_ "
    "async_ non_persistent_ dataloader_ data_ tokenizer_ null_tokenizer_ eval_ exit_ consumed_ "
    "skipped_ do_ deepspeed_ curriculum_ random_ltd_ cuda_graph_ nccl_ megatron_fsdp_ fsdp_ "
    "ddp_ torch_fsdp2_ pin_cpu_ fine_grained_ distrib_optim_ replication high_priority_ "
    "mamba_ dsa_ mtp_ mup_ yarn_ relative_attention_ kitchen_ qk_clip_ fp8_ fp4_";

// Words in names of paths and timing, unless "config" is one of them; and such endings.
constexpr const char* words =
    "timeout log logging logger profiler ckpt dataset iters checkpoint iteration tokenizer "
    "iterations samples teacher offload overlap offloading offloaded fsdp gloo";
constexpr const char* path_endings = "dir path paths file filename port";

// Arguments without effect on the model: aliases of flags in the table, values that Megatron
// derives at startup, kernels, messages and evaluation.
constexpr const char* harmless =
    "apply_rope_fusion barrier_with_L1_time deprecated_use_mcore_models enable_one_logger fp8 "
    "muon_split_qkv perform_initialization use_flash_attn_v1 "
    "use_contiguous_buffers_in_local_ddp microbatch_group_size_per_vp_stage actual_seq_length "
    "allow_transformer_engine compression_training curr_iteration ds_pipeline_enabled eos_id "
    "model_type modelopt_enabled num_floating_point_operations_so_far padded_vocab_size "
    "pad_vocab_size params_dtype to_test transformer_pipeline_model_parallel_size "
    "variable_seq_lengths virtual_pipeline_model_parallel_size world_size "
    "_is_global_batch_size_explicitly_specified batch_invariant_mode cache_mla_latents "
    "delay_wgrad_compute disable_jit_fuser flash_attention_version flash_decode "
    "fused_residual_rmsnorm gradient_reduce_div_fusion keep_fp8_transpose_cache "
    "mla_down_proj_fusion mlp_chunks_for_prefill mlp_chunks_for_training optimizer_cuda_graph "
    "reuse_grad_buf_for_mxfp8_param_ag use_fused_weighted_squared_relu "
    "use_grouped_gemm_for_dense_mlp use_grouped_gemm_for_shared_expert use_te_activation_func "
    "use_transformer_engine_op_fuser create_all_gather_group disable_msc_deprecated "
    "disable_symmetric_registration enable_full_sharding_in_hsdp enable_msc "
    "expert_gtp_weight_remat_size expert_tensor_parallel_num_weight_shards fake_process_group "
    "gtp_weight_remat_size hybrid_context_parallel outer_dp_sharding_strategy "
    "pipeline_model_parallel_comm_backend sharp_enabled_group symmetric_ar_type "
    "tensor_parallel_num_weight_shards use_layer_wise_distributed_optimizer "
    "use_layer_wise_param_layout use_sharp allow_ambiguous_pad_tokens bert_embedder_type "
    "bert_load chat_template classes_fraction decode_only_cuda_graphs deepscale "
    "deepscale_config disable_chunked_prefill dump_param_to_param_group_map "
    "embedding_init_method_std enable_chunked_prefill enable_experimental full_validation "
    "iter_per_epoch kd mask_factor mask_type max_tokens_to_oom mos multiple_validation_sets "
    "num_channels num_classes num_speculative_tokens nvtx_ranges output_bert_embeddings "
    "patch_dim perform_rl_step query_in_block_prob record_shapes refit_method "
    "renormalize_blend_weights run_workload_inspector_server sft special_tokens "
    "start_eval_at_iter use_legacy_static_engine use_one_sent_docs validation_set_names "
    "verify_integrity max_seqlen_per_dp_cp_rank offset_sampling_seed_by_dp_rank "
    "gpu_sniff_test_interval rank true_vocab_size deepspeed_config_dict langrl_env_config";

// Default values that Megatron stores even if the feature is not used.
struct Default {
  const char *name, *value;
};
constexpr Default defaults[] = {{"linear_conv_kernel_dim", "4"},
                                {"linear_key_head_dim", "128"},
                                {"linear_num_key_heads", "16"},
                                {"linear_num_value_heads", "32"},
                                {"linear_value_head_dim", "128"}};

// Arguments that the table of flags knows without computing what they change.
constexpr const char* changing =
    "apply_wd_to_qk_layernorm no_weight_decay_cond_type freeze_all_layers fp8_output_proj qk_clip "
    "heterogeneous_layers_config_encoded_json kitchen_config_file kitchen_recipe_number "
    "linear_attention_freq linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads "
    "linear_num_value_heads linear_value_head_dim te_precision_config_file use_kitchen_attention";

// "--no-bias-gelu-fusion" is stored as bias_gelu_fusion, "--override-opt_param-scheduler" as
// override_opt_param_scheduler.
const std::set<std::string, std::less<>>& names_of_flags() {
  static const std::set<std::string, std::less<>> names = [] {
    std::set<std::string, std::less<>> all;
    for (const Flag& flag : all_flags()) {
      std::string name = flag.name.substr(2);
      std::ranges::replace(name, '-', '_');
      for (const std::string_view no : {"no_", "disable_"})
        if (name.starts_with(no)) all.insert(name.substr(no.size()));
      all.insert(std::move(name));
    }
    return all;
  }();
  return names;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; !text.empty(); text.remove_prefix(std::min(text.size(), end + 1))) {
    end = std::min(text.find(at), text.size());
    parts.push_back(text.substr(0, end));
  }
  return parts;
}

bool is_one_of(std::string_view name, const char* list) {
  const std::vector<std::string_view> names = split(list, ' ');
  return std::ranges::find(names, name) != names.end();
}

bool speaks_of_the_run(std::string_view name) {
  if (is_one_of(name, harmless)) return true;
  const std::vector<std::string_view> parts = split(name, '_');
  const auto has = [&](const char* list) {
    return std::ranges::any_of(parts, [&](auto part) { return is_one_of(part, list); });
  };
  if (parts.empty() || has("config")) return false;
  return std::ranges::any_of(split(beginnings, ' '),
                             [&](auto begin) { return name.starts_with(begin); }) ||
         has(words) || is_one_of(parts.back(), path_endings);
}

bool is_nothing(std::string_view value) {
  constexpr std::string_view nothing[] = {"None", "False", "0",      "0.0",
                                          "",     "()",    "(None)", "a dict of 0"};
  return std::ranges::find(nothing, value) != std::end(nothing);
}

bool is_default(const MegatronArgument& argument) {
  return std::ranges::any_of(defaults, [&](const Default& known) {
    return argument.name == known.name && argument.value == known.value;
  });
}

}  // namespace

std::string note_of_unknown_arguments(const std::vector<MegatronArgument>& arguments) {
  std::vector<std::string> listed;
  const bool has_experts = std::ranges::any_of(arguments, [](const MegatronArgument& argument) {
    return argument.name == "num_experts" && !is_nothing(argument.value) && argument.value != "1";
  });
  for (const MegatronArgument& argument : arguments) {
    const auto& [name, value] = argument;
    const bool known =
        knows_argument(name) || (names_of_flags().contains(name) && !is_one_of(name, changing));
    if (known || is_nothing(value) || is_default(argument) || speaks_of_the_run(name)) continue;
    if (name.starts_with("moe_") && !has_experts) continue;
    listed.push_back(fmt::format("{} = {}", printable(name), printable(value)));
  }
  if (listed.empty()) return "";
  std::ranges::sort(listed);
  const std::size_t shown = std::min(listed.size(), most_listed);
  const bool one = listed.size() == 1;
  return fmt::format(
      "its arguments include {}{}, which {} unknown to Trireme: if {} the model's arithmetic or "
      "training, results will differ",
      fmt::join(listed.begin(), listed.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown < listed.size() ? fmt::format(" and {} more", listed.size() - shown) : "",
      one ? "is" : "are", one ? "it affects" : "they affect");
}

}  // namespace trireme::megatron
