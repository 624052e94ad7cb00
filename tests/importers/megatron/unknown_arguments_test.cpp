// Arguments of checkpoints that no table knows: what is listed in the note, and what is not.
#include "importers/megatron/unknown_arguments.h"

#include <gmock/gmock.h>

#include <sstream>

namespace trireme {
namespace {

using megatron::note_of_unknown_arguments;
using testing::AllOf;
using testing::HasSubstr;

// What the parsers of Megatron-LM 2.6, of Megatron-Core 0.9.0, 0.12.0, 0.16.1 and 0.19.0 and of
// Megatron-DeepSpeed leave in `args` of a Llama and a GPT beyond what the table of flags knows by
// the same name, where it is neither False nor None nor 0.
constexpr const char* of_real_runs =
    "_is_global_batch_size_explicitly_specified=True activation_offload_fraction=1.0 "
    "apply_rope_fusion=True async_ckpt_cpu_priority=10 async_ckpt_io_priority=3 "
    "async_strategy=mcore barrier_with_L1_time=True bert_embedder_type=megatron "
    "ckpt_fully_parallel_load_exchange_algo=broadcast "
    "ckpt_fully_parallel_load_process_group=dp ckpt_fully_parallel_save_process_group=dp "
    "ckpt_load_validate_sharding_integrity=True classes_fraction=1.0 cuda_graph_impl=none "
    "data_parallel_size=1 data_per_class_fraction=1.0 data_sharding=True "
    "deprecated_use_mcore_models=True dino_bottleneck_size=256 dino_freeze_last_layer=1 "
    "dino_head_hidden_size=2048 dino_local_crops_number=10 dino_local_img_size=96 "
    "dino_teacher_temp=0.07 dino_warmup_teacher_temp=0.04 dino_warmup_teacher_temp_epochs=30 "
    "disable_chunked_prefill=True dist_ckpt_workers=1 ds_pipeline_enabled=True "
    "dsa_indexer_rotate_activation=True dsa_indexer_scoring_relu=True "
    "dsa_indexer_topk_freq=1 dsa_kernel_backend=none enable_gloo_process_groups=True "
    "enable_msc=True enable_one_logger=True error_injection_type=transient_error "
    "eval_global_batch_size=8 eval_micro_batch_size=2 exit_signal=15 "
    "expert_gtp_weight_remat_size=1 expert_tensor_parallel_num_weight_shards=1 "
    "flight_recorder_dump_on_timeout=True flight_recorder_extra_dump_on_exec=True "
    "flight_recorder_include_only_active=True flight_recorder_trace_buffer_size=2000 "
    "fp4_recipe=nvfp4 ft_num_warmup_iters=5 gradient_reduce_div_fusion=True "
    "grpo_clamp_eps_lower=0.01 grpo_clamp_eps_upper=0.01 grpo_group_size=2 grpo_iterations=2 "
    "grpo_kl_beta=0.001 grpo_prompts_per_step=32 gtp_weight_remat_size=1 img_dim=224 "
    "img_h=224 img_w=224 indexer_batch_size=128 indexer_log_interval=1000 "
    "inference_batch_times_seqlen_threshold=-1 inference_batch_times_seqlen_threshold=512 "
    "inference_coordinator_port=12346 inference_cuda_graph_max_tokens=512 "
    "inference_cuda_graph_scope=InferenceCudaGraphScope.none "
    "inference_dynamic_batching_async_sched_mode=legacy "
    "inference_dynamic_batching_block_size=256 "
    "inference_dynamic_batching_buffer_guaranteed_fraction=0.2 "
    "inference_dynamic_batching_buffer_size_gb=40.0 "
    "inference_dynamic_batching_cuda_graph_max_tokens=16384 "
    "inference_dynamic_batching_cuda_graph_mixed_prefill_count=16 "
    "inference_dynamic_batching_cuda_graph_sizing_distribution=exponential "
    "inference_dynamic_batching_logprobs_mode=raw_logprobs "
    "inference_dynamic_batching_num_cuda_graphs=16 "
    "inference_dynamic_batching_prefix_caching_coordinator_policy=load_balanced "
    "inference_dynamic_batching_prefix_caching_eviction_policy=ref_zero "
    "inference_dynamic_batching_prefix_caching_routing_alpha=0.5 "
    "inference_dynamic_batching_sampling_backend=torch inference_grouped_gemm_backend=vllm "
    "inference_max_batch_size=8 inference_max_requests=8 inference_max_seq_length=2560 "
    "inference_moe_token_dispatcher_type=nvls inprocess_active_world_size=1 "
    "inprocess_barrier_timeout=120 inprocess_completion_timeout=120 "
    "inprocess_granularity=node inprocess_hard_timeout=90 inprocess_heartbeat_interval=30 "
    "inprocess_heartbeat_timeout=60 inprocess_last_call_wait=1 "
    "inprocess_monitor_process_interval=1.0 inprocess_monitor_thread_interval=1.0 "
    "inprocess_progress_watchdog_interval=1.0 inprocess_soft_timeout=60 "
    "inprocess_termination_grace_time=1 iter_per_epoch=1250 kd_alpha_ce=1 kd_beta_ce=1 "
    "kd_temp=1.0 kitchen_attention_backend=sdpa "
    "langrl_inference_server_type=inplace_megatron linear_conv_kernel_dim=4 "
    "linear_key_head_dim=128 linear_num_key_heads=16 linear_num_value_heads=32 "
    "linear_value_head_dim=128 logits_load_decode_threads=4 logits_load_kd_loss_alpha=1.0 "
    "logits_load_msc_prefetch_depth=2 logits_load_prefetch_factor=3 logits_save_dtype=fp16 "
    "logits_save_top_p_min_k=1 mamba_head_dim=64 "
    "mamba_inference_conv_states_dtype=torch.bfloat16 "
    "mamba_inference_ssm_states_dtype=torch.bfloat16 mamba_num_groups=8 mamba_state_dim=128 "
    "mask_factor=1.0 mask_type=random max_tokens_to_oom=12000 "
    "megatron_fsdp_main_params_dtype=torch.float32 mid_level_dataset_surplus=0.005 "
    "min_offloaded_tensor_size=1048576 mlp_chunks_for_prefill=1 mlp_chunks_for_training=1 "
    "moe_deepep_num_sms=20 moe_flex_dispatcher_backend=deepep moe_hybridep_num_sms=16 "
    "moe_hybridep_num_sms_preprocessing=108 moe_paged_stash_buffer_size_factor_cuda=1.1 "
    "moe_paged_stash_page_size=64 mtp_loss_scaling_factor=0.1 muon_split_qkv=True "
    "mup_attn_scale_power=1.0 mup_embedding_mult=1.0 mup_output_mult=1.0 mup_width_mult=1.0 "
    "non_persistent_local_ckpt_algo=fully_parallel null_tokenizer_pad_id=-1 num_channels=3 "
    "num_classes=1000 num_experts_teacher=(1) offset_sampling_seed_by_dp_rank=True "
    "outer_dp_sharding_strategy=no_shard pad_vocab_size=True padded_vocab_size=50304 "
    "params_dtype=torch.bfloat16 patch_dim=16 perform_initialization=True pin_cpu_grads=True "
    "pin_cpu_params=True qk_clip_alpha=0.5 qk_clip_threshold=100 query_in_block_prob=0.1 "
    "refit_method=gloo relative_attention_max_distance=128 relative_attention_num_buckets=32 "
    "replication_factor=2 retro_attention_gate=1 retro_encoder_attention_dropout=0.1 "
    "retro_encoder_hidden_dropout=0.1 retro_encoder_layers=2 retro_num_neighbors=2 "
    "retro_num_retrieved_chunks=2 retro_verify_neighbor_count=True "
    "rl_consumption_granularity=B rl_default_temperature=1.0 rl_default_top_k=-1 "
    "rl_kv_cache_management_mode=persist rl_parallel_generation_tasks=512 "
    "rl_prompts_per_eval=32 rl_sequence_packing_algo=fifo "
    "rl_sequence_packing_max_sequences_per_bin=50 rl_submission_granularity=B "
    "sft_tokenizer_prompt_format=nemotron-h-aligned stream_ckpt_dequant=True "
    "strict_fsdp_dtensor_load=True swin_backbone_type=tiny "
    "tensor_parallel_num_weight_shards=1 "
    "tokenizer_sentencepiece_ignore_extra_whitespaces=True "
    "torch_fsdp2_reshard_after_forward=True transformer_pipeline_model_parallel_size=1 "
    "use_contiguous_buffers_in_local_ddp=True use_gloo_process_groups=True "
    "use_layer_wise_param_layout=True use_mamba_mem_eff_path=True "
    "use_tokenizer_model_from_checkpoint_args=True vision_backbone_type=vit "
    "vision_pretraining_type=classify world_size=1 ";

std::string note_of(const std::string& name, const std::string& value) {
  return note_of_unknown_arguments({{name, value}});
}

TEST(UnknownArguments, RealRunsHaveNone) {
  std::vector<MegatronArgument> arguments;
  std::istringstream words(of_real_runs);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    arguments.push_back({word.substr(0, equals), word.substr(equals + 1)});
  }
  EXPECT_GT(arguments.size(), 190u);
  EXPECT_EQ(note_of_unknown_arguments(arguments), "");
}

TEST(UnknownArguments, WhatTheTablesKnowIsNotListed) {
  for (const auto& [name, value] : {std::pair{"swiglu", "True"},
                                    {"num_layers", "4"},
                                    {"num_experts", "1"},
                                    {"bias_gelu_fusion", "True"},  // --no-bias-gelu-fusion
                                    {"override_opt_param_scheduler", "True"},  // one underscore
                                    {"deepspeed_config", "ds.json"},
                                    {"use_cpu_initialization", "True"}})
    EXPECT_EQ(note_of(name, value), "") << name;
}

TEST(UnknownArguments, WhatCouldChangeTheModelIsListed) {
  EXPECT_THAT(note_of("some_attention_variant", "sparse"),
              AllOf(HasSubstr("some_attention_variant = sparse, which is unknown to Trireme"),
                    HasSubstr("results will differ")));
  // Of the families that are not listed none may hide what turns a variant on.
  for (const auto& [name, value] : {std::pair{"qk_clip", "True"},
                                    {"use_kitchen_attention", "True"},
                                    {"fp4", "e2m1"},
                                    {"linear_attention_freq", "4"},
                                    {"linear_value_head_dim", "64"},
                                    {"hybrid_attention_ratio", "0.5"},
                                    {"apply_wd_to_qk_layernorm", "True"},
                                    {"freeze_all_layers", "True"},
                                    {"te_precision_config_file", "precision.yaml"},
                                    {"heterogeneous_layers_config_encoded_json", "{}"},
                                    {"embedding_multiplier", "12.0"},
                                    {"final_logit_softcapping", "30.0"},
                                    {"attention_dropout_path_rate", "0.1"},
                                    {"full_attention_interval", "4"},
                                    {"attention_low_rank", "64"}})
    EXPECT_THAT(note_of(name, value), HasSubstr(std::string(name) + " = " + value)) << name;
}

TEST(UnknownArguments, WhatIsOffIsNotListed) {
  for (const char* value : {"False", "None", "0", "0.0", "", "()"})
    EXPECT_EQ(note_of("some_attention_variant", value), "") << value;
}

TEST(UnknownArguments, ManyAreCounted) {
  std::vector<MegatronArgument> arguments;
  for (int i = 0; i < 30; ++i) arguments.push_back({"variant" + std::to_string(i), "True"});
  EXPECT_THAT(note_of_unknown_arguments(arguments),
              AllOf(HasSubstr("variant0 = True, variant1 = True, variant10"),
                    HasSubstr(" and 18 more, which are unknown to Trireme")));
}

TEST(UnknownArguments, NothingSteersATerminal) {
  const std::string note = note_of("a\x1b[31m", std::string(500, 'x'));
  EXPECT_EQ(note.find('\x1b'), std::string::npos);
  EXPECT_LT(note.size(), 400u);
}

}  // namespace
}  // namespace trireme
