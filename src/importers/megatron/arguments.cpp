// Maps stored arguments to flags, which translate() then reads.
#include "importers/megatron/arguments.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "importers/megatron/translate.h"

namespace trireme::megatron {
namespace {

enum class Word : std::uint8_t {
  value,       // the flag with the argument's value
  when_true,   // the flag without value if the argument is True
  when_false,  // ... if it is False
};

struct Argument {
  const char *name, *flag;
  Word word = Word::value;
};

// Arguments that determine the model's computation.
constexpr std::array<Argument, 62> arguments{{
    {"num_layers", "--num-layers"},
    {"hidden_size", "--hidden-size"},
    {"num_attention_heads", "--num-attention-heads"},
    {"max_position_embeddings", "--max-position-embeddings"},
    {"seq_length", "--seq-length"},
    {"ffn_hidden_size", "--ffn-hidden-size"},
    {"kv_channels", "--kv-channels"},
    {"group_query_attention", "--group-query-attention", Word::when_true},
    {"num_query_groups", "--num-query-groups"},
    {"position_embedding_type", "--position-embedding-type"},
    {"use_rotary_position_embeddings", "--use-rotary-position-embeddings", Word::when_true},
    {"add_position_embedding", "--no-position-embedding", Word::when_false},
    {"rotary_base", "--rotary-base"},
    {"rope_theta", "--rotary-base"},  // in Megatron-DeepSpeed
    {"rotary_percent", "--rotary-percent"},
    {"rotary_interleaved", "--rotary-interleaved", Word::when_true},
    {"rotary_seq_len_interpolation_factor", "--rotary-seq-len-interpolation-factor"},
    {"use_rope_scaling", "--use-rope-scaling", Word::when_true},
    {"rope_scaling_factor", "--rope-scaling-factor"},
    {"rotary_scaling_factor", "--rotary-scaling-factor"},
    {"mscale", "--mscale"},
    {"mscale_all_dim", "--mscale-all-dim"},
    {"yarn_original_max_position_embeddings", "--yarn-original-max-position-embeddings"},
    {"yarn_beta_fast", "--yarn-beta-fast"},
    {"yarn_beta_slow", "--yarn-beta-slow"},
    {"yarn_correction_range_round_to_int", "--no-yarn-correction-range-round-to-int",
     Word::when_false},
    {"normalization", "--normalization"},
    {"norm_epsilon", "--norm-epsilon"},
    {"layernorm_epsilon", "--layernorm-epsilon"},
    {"apply_residual_connection_post_layernorm", "--apply-residual-connection-post-layernorm",
     Word::when_true},
    {"swiglu", "--swiglu", Word::when_true},
    {"squared_relu", "--squared-relu", Word::when_true},
    {"quick_geglu", "--quick-geglu", Word::when_true},
    {"activation_func_clamp_value", "--activation-func-clamp-value"},
    {"glu_linear_offset", "--glu-linear-offset"},
    {"softmax_type", "--softmax-type"},
    {"openai_gelu", "--openai-gelu", Word::when_true},
    {"bias_gelu_fusion", "--no-bias-gelu-fusion", Word::when_false},
    {"add_bias_linear", "--disable-bias-linear", Word::when_false},
    {"add_qkv_bias", "--add-qkv-bias", Word::when_true},
    {"qk_layernorm", "--qk-layernorm", Word::when_true},
    {"window_size", "--window-size"},
    {"window_attn_skip_freq", "--window-attn-skip-freq"},
    {"no_rope_freq", "--no-rope-freq"},
    {"untie_embeddings_and_output_weights", "--untie-embeddings-and-output-weights",
     Word::when_true},
    {"make_vocab_size_divisible_by", "--make-vocab-size-divisible-by"},
    {"use_mup", "--use-mup", Word::when_true},
    {"mup_base_hidden_size", "--mup-base-hidden-size"},
    {"mup_base_head_dim", "--mup-base-head-dim"},
    {"mup_attn_scale_power", "--mup-attn-scale-power"},
    {"mup_embedding_mult", "--mup-embedding-mult"},
    {"mup_output_mult", "--mup-output-mult"},
    {"hidden_dropout", "--hidden-dropout"},
    {"attention_dropout", "--attention-dropout"},
    {"init_method_std", "--init-method-std"},
    {"embed_layernorm", "--embed-layernorm", Word::when_true},
    {"embedding_weights_in_fp32", "--embedding-weights-in-fp32", Word::when_true},
    {"mtp_num_layers", "--mtp-num-layers"},
    {"mtp_loss_scaling_factor", "--mtp-loss-scaling-factor"},
    {"bert_binary_head", "--bert-no-binary-head", Word::when_false},
    {"num_key_value_heads", "--num-key-value-heads"},
    {"spec", "--spec"},
}};

// Same for MoE layers.
constexpr std::array<Argument, 19> expert_arguments{{
    {"num_experts", "--num-experts"},
    {"moe_ffn_hidden_size", "--moe-ffn-hidden-size"},
    {"moe_layer_freq", "--moe-layer-freq"},
    {"moe_router_topk", "--moe-router-topk"},
    {"moe_router_score_function", "--moe-router-score-function"},
    {"moe_router_pre_softmax", "--moe-router-pre-softmax", Word::when_true},
    {"moe_router_topk_scaling_factor", "--moe-router-topk-scaling-factor"},
    {"moe_router_num_groups", "--moe-router-num-groups"},
    {"moe_router_group_topk", "--moe-router-group-topk"},
    {"moe_router_enable_expert_bias", "--moe-router-enable-expert-bias", Word::when_true},
    {"moe_router_bias_update_rate", "--moe-router-bias-update-rate"},
    {"moe_router_load_balancing_type", "--moe-router-load-balancing-type"},
    {"moe_aux_loss_coeff", "--moe-aux-loss-coeff"},
    {"moe_z_loss_coeff", "--moe-z-loss-coeff"},
    {"moe_shared_expert_intermediate_size", "--moe-shared-expert-intermediate-size"},
    {"moe_shared_expert_gate", "--moe-shared-expert-gate", Word::when_true},
    {"moe_expert_capacity_factor", "--moe-expert-capacity-factor"},
    {"moe_token_drop_policy", "--moe-token-drop-policy"},
    {"moe_input_jitter_eps", "--moe-input-jitter-eps"},
}};

// Arguments that change results for the same tensors and have no supported flag. None and False are
// always accepted; `plain` is one more accepted value.
struct Refused {
  const char *name, *why, *plain = "None";
};
constexpr std::array<Refused, 25> refused_arguments{{
    {"apply_layernorm_1p", "its norms are stored as their distance from 1"},
    {"layernorm_zero_centered_gamma", "its norms are stored as their distance from 1"},
    {"glu_activation", "its gate is in the second half of the rows"},
    {"heterogeneous_layers_config_path", "its layers differ from each other"},
    {"softmax_scale", "its attention has a different scale"},
    {"qk_l2_norm", "its queries and keys are L2-normalized"},
    {"attention_output_gate", "its attention has an output gate"},
    {"experimental_attention_variant", "its attention is of a different kind"},
    {"multi_latent_attention", "models with multi-head latent attention are not supported"},
    {"mtp_use_repeated_layer", "its multi-token prediction modules share one layer"},
    {"mtp_detach_heads", "its multi-token prediction modules do not train the model"},
    {"mtp_standalone", "its multi-token prediction modules are in a stage of their own"},
    {"mtp_hsm", "its multi-token prediction modules read other hidden states"},
    {"mtp_hybrid_override_pattern", "not all of its layers are attention"},
    {"linear_attention_type", "its attention is of a different kind"},
    {"mrope_section", "its position ids have several components"},
    {"retro_add_retriever", "its layers attend to retrieved texts"},
    {"is_hybrid_model", "not all of its layers are attention"},
    {"hybrid_layer_pattern", "its tensors have the names of hybrid models"},
    {"enable_mhc_connections", "its layers have several residual streams"},
    {"hybrid_override_pattern", "not all of its layers are attention"},
    {"moe_latent_size", "its experts do not read rows of the model's width"},
    {"moe_apply_probs_on_input", "its routing weights multiply the input of experts"},
    {"moe_mlp_glu_interleave_size", "its gate rows are interleaved with others"},
    {"moe_shared_expert_glu_interleave_size", "its gate rows are interleaved with others"},
}};

void refuse_argument(const std::string& where, const std::string& name, const std::string& value,
                     const std::string& why) {
  fail_input("'{}': its argument {} is {}: {}", where, name, value, why);
}

bool has_experts(const ArgumentLookup& argument) {
  const std::string experts = argument("num_experts").value_or("1");
  return experts != "1" && experts != "(1)";
}

template <std::size_t N>
void add_words(const std::array<Argument, N>& table, const ArgumentLookup& argument,
               std::vector<std::string>& words) {
  const bool has_newer_epsilon = argument("norm_epsilon").has_value();
  for (const auto& [name, flag, word] : table) {
    auto value = argument(name);
    if (!value || (std::string_view(name) == "layernorm_epsilon" && has_newer_epsilon)) continue;
    if (word == Word::value) {
      // A list of layers, the evaluated form of a Python pattern.
      const std::string_view pattern = name;
      const bool is_pattern = pattern == "moe_layer_freq" || pattern == "no_rope_freq" ||
                              pattern == "window_attn_skip_freq";
      if (is_pattern && value->starts_with('('))
        value = "[" + value->substr(1, value->size() - 2) + "]";
      words.emplace_back(fmt::format("{}={}", flag, *value));
    } else if (*value == (word == Word::when_true ? "True" : "False")) {
      words.emplace_back(flag);
    }
  }
}

std::vector<std::string> flags_of(const std::string& where, const ArgumentLookup& argument,
                                  Experts experts) {
  for (const auto& [name, why, plain] : refused_arguments) {
    const std::string found = argument(name).value_or("None");
    if (found != "None" && found != "False" && found != plain)
      refuse_argument(where, name, found, why);
  }
  if (has_experts(argument) && experts == Experts::refused) {
    refuse_argument(where, "num_experts", *argument("num_experts"),
                    "models with experts are supported only in Megatron-Core's distributed format "
                    "(--ckpt-format torch_dist)");
  }
  for (const char* name :
       {"num_layers", "hidden_size", "num_attention_heads", "max_position_embeddings"}) {
    if (!argument(name)) fail_input("'{}': its arguments do not contain {}, a number", where, name);
  }
  std::vector<std::string> words;
  add_words(arguments, argument, words);
  if (has_experts(argument)) add_words(expert_arguments, argument, words);
  return words;
}

}  // namespace

bool knows_argument(std::string_view name) {
  const auto has_name = [&](const auto& row) { return row.name == name; };
  return std::ranges::any_of(arguments, has_name) ||
         std::ranges::any_of(expert_arguments, has_name) ||
         std::ranges::any_of(refused_arguments, has_name);
}

ModelConfig model_of_arguments(const std::string& where, bool bert, const ArgumentLookup& argument,
                               Experts experts) {
  const Translation translation =
      translate(flags_of(where, argument, experts), {.program = bert ? Program::bert : Program::gpt,
                                                     .model_only = true,
                                                     .lenient = true,
                                                     .read_file = {}});
  for (const Note& lost : translation.lost) {
    // Flags unrelated to the model may be missing and are ignored here.
    if (!lost.flag.starts_with("--")) continue;
    fail_input("'{}': its arguments describe {}: {}", where, lost.flag, lost.text);
  }
  return to_config(translation).model;
}

}  // namespace trireme::megatron
