// Nemotron-H: each layer is Mamba-2, attention without positions, an MLP or experts alone.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/huggingface/activations.h"
#include "formats/huggingface/kinds/llama.h"

namespace trireme {
namespace {

constexpr DeepSeekExperts kExperts{.dense_layers = 0, .experts = 8, .top_k = 2, .inner = 7688};

// A kind of layer in hybrid_override_pattern and in layers_block_type, whose older files have other
// names of two of them.
struct Part {
  char symbol;
  const char *name, *older;
};
constexpr Part parts[] = {{'M', "linear_attention", "mamba"},
                          {'*', "full_attention", "attention"},
                          {'-', "mlp", "mlp"},
                          {'E', "moe", "moe"}};

// The symbols of all layers. transformers prefers the list.
std::string read_pattern(const HuggingFaceReader& json) {
  const char *const list = json.either("layers_block_type", "layer_types"),
                    *const pattern = "hybrid_override_pattern";
  std::string symbols;
  if (json.has(list)) {
    json.pass_over({pattern});
    const auto& names = json[list];
    for (const auto& name : names.is_array() ? names : HuggingFaceReader::Json::array({nullptr})) {
      const auto* const part = std::ranges::find_if(
          parts, [&](const Part& one) { return name == one.name || name == one.older; });
      if (part == std::end(parts))
        json.refuse(list, "a layer must be linear_attention, full_attention, mlp or moe");
      symbols += part->symbol;
    }
  } else {
    symbols = json.text(pattern, "");
    if (symbols.find_first_not_of("M*-E") != std::string::npos)
      json.refuse(pattern, "a layer must be M, *, - or E");
  }
  if (symbols.find_first_of("-E") == std::string::npos)
    json.refuse(json.has(list) ? list : pattern, "at least one layer must be an MLP or experts");
  return symbols;
}

void read_layers(const HuggingFaceReader& json, ModelConfig& m) {
  const std::string symbols = read_pattern(json);
  m.num_layers = std::ssize(symbols);
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
    const char symbol = symbols[static_cast<std::size_t>(layer)];
    if (symbol == 'M') m.linear_layers.push_back(layer);
    if (symbol == 'E') m.moe.layers.push_back(layer);
    if (symbol == 'E' || symbol == '-') m.mlp_layers.push_back(layer);
  }
  if (json.size("num_hidden_layers", "num_layers", m.num_layers) != m.num_layers)
    json.refuse("num_hidden_layers", fmt::format("the kinds of {} layers are given", m.num_layers));
}

// Trireme's time steps have no lower bound, like those of mamba_ssm's kernels, of Megatron-LM and
// of generation. transformers' own code has one, for whole sequences only.
constexpr double no_bound = 1e-30;  // the logarithm of 0 fails there

void read_nemotron_mamba(const HuggingFaceReader& json, ModelConfig& m) {
  if (m.linear_layers.empty())
    return json.pass_over({"n_groups", "mamba_num_heads", "ssm_state_size", "mamba_head_dim",
                           "conv_kernel", "use_conv_bias", "mamba_hidden_act", "time_step_min"});
  m.linear_kind = LinearKind::mamba2;
  m.linear_key_heads = json.size("n_groups", "linear_key_heads", 8);
  m.linear_value_heads = json.size("mamba_num_heads", "linear_value_heads", 128);
  m.linear_key_head_dim = json.size("ssm_state_size", "linear_key_head_dim", 128);
  m.linear_value_head_dim = json.size("mamba_head_dim", "linear_value_head_dim", 64);
  m.linear_conv_width = json.size("conv_kernel", "linear_conv_width", 4);
  m.linear_conv_bias = json.flag("use_conv_bias", true);
  json.must_be("mamba_hidden_act", "silu");
  const char* const bound = "time_step_min";
  if (!json.has(bound) || !json[bound].is_number() || json[bound] > no_bound)
    json.note(
        "config.json: time_step_min bounds time steps only in transformers without mamba_ssm, and "
        "there not in generation; Trireme does not apply it");
}

void read_nemotron_experts(const HuggingFaceReader& json, ModelConfig& m) {
  if (m.moe.layers.empty())
    return json.pass_over({"n_routed_experts", "num_local_experts", "num_experts_per_tok",
                           "moe_intermediate_size", "moe_shared_expert_intermediate_size",
                           "n_shared_experts", "norm_topk_prob", "routed_scaling_factor", "n_group",
                           "topk_group", "moe_latent_size"});
  read_deepseek_experts(json, m, kExperts);
  m.moe.shared_ffn_hidden_size =
      json.size("moe_shared_expert_intermediate_size", "shared_ffn_hidden_size", 7688);
  json.must_be_absent("moe_latent_size", "projections around the experts are not supported");
}

ModelConfig read_nemotron_h(const HuggingFaceReader& json) {
  ModelConfig m;
  m.family = "llama";
  m.position = PositionEncoding::none;
  read_layers(json, m);
  m.vocab_size = json.size("vocab_size", "vocab_size", 131072);
  m.hidden_size = json.size("hidden_size", "hidden_size", 4096);
  m.num_heads = json.size("num_attention_heads", "num_heads", 32);
  m.num_kv_heads = json.is_null("num_key_value_heads")
                       ? m.num_heads
                       : json.size("num_key_value_heads", "num_kv_heads", 8);
  m.head_dim = json.size("head_dim", "head_dim", 128);
  json.must_be("attention_head_dim", m.head_dim);  // of older code
  m.ffn_hidden_size = json.size("intermediate_size", "ffn_hidden_size", 21504);
  m.max_positions = json.size("max_position_embeddings", "max_positions", 4096);
  m.activation = json.activation("mlp_hidden_act", "relu2");
  m.norm_eps = json.number("layer_norm_epsilon", "norm_eps", 1e-5);
  m.attention_dropout = json.number("attention_dropout", "attention_dropout", 0);
  m.init_std = json.number("initializer_range", "init_std", 0.02);
  m.bias = m.qkv_bias = m.tie_embeddings = false;
  for (const char* key :
       {"attention_bias", "mlp_bias", "use_bias", "mamba_proj_bias", "tie_word_embeddings"})
    json.must_be(key, false);
  json.must_be("num_nextn_predict_layers", 0);
  json.must_be("is_causal", true);
  read_nemotron_mamba(json, m);
  read_nemotron_experts(json, m);
  return m;
}

char symbol_of(const ModelConfig& m, std::int64_t layer) {
  if (m.attention_in_layer(layer)) return m.linear_in_layer(layer) ? 'M' : '*';
  return m.moe.in_layer(layer) ? 'E' : '-';
}

void write_nemotron_experts(HuggingFaceJson& json, const ModelConfig& m) {
  write_deepseek_experts(json, m);
  for (const char* key :
       {"first_k_dense_replace", "scoring_func", "topk_method", "aux_loss_alpha", "seq_aux"})
    json.erase(key);
  if (m.moe.num_experts == 0) return;
  json["n_shared_experts"] = 1;
  json["moe_shared_expert_intermediate_size"] =
      std::max<std::int64_t>(1, m.moe.shared_ffn_hidden_size);
}

// The pattern is understood by transformers and by the code that published files bring along.
HuggingFaceJson write_nemotron_h(const ModelConfig& m) {
  std::string pattern;
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer) pattern += symbol_of(m, layer);
  HuggingFaceJson json{{"vocab_size", m.vocab_size},
                       {"max_position_embeddings", m.max_positions},
                       {"hidden_size", m.hidden_size},
                       {"intermediate_size", m.ffn_hidden_size},
                       {"num_hidden_layers", m.num_layers},
                       {"hybrid_override_pattern", pattern},
                       {"num_attention_heads", m.num_heads},
                       {"num_key_value_heads", m.num_kv_heads},
                       {"head_dim", m.head_dim},
                       {"mlp_hidden_act", huggingface_activation(m.activation)},
                       {"layer_norm_epsilon", m.norm_eps},
                       {"attention_dropout", m.attention_dropout},
                       {"initializer_range", m.init_std},
                       {"tie_word_embeddings", false}};
  if (!m.linear_layers.empty()) {
    json["n_groups"] = m.linear_key_heads;
    json["mamba_num_heads"] = m.linear_value_heads;
    json["ssm_state_size"] = m.linear_key_head_dim;
    json["mamba_head_dim"] = m.linear_value_head_dim;
    json["conv_kernel"] = m.linear_conv_width;
    json["use_conv_bias"] = m.linear_conv_bias;
    json["time_step_min"] = no_bound;
  }
  write_nemotron_experts(json, m);
  return json;
}

constexpr HuggingFaceInertKey nemotron_h_keys[] = {
    {"chunk_size"},
    {"expand"},
    {"hidden_dropout", "[0]"},
    {"mamba_ssm_cache_dtype"},
    {"moe_shared_expert_overlap"},
    {"mtp_hybrid_override_pattern"},
    {"mtp_layers_block_type"},
    {"norm_eps"},
    {"num_logits_to_keep"},
    {"partial_rotary_factor"},
    {"rescale_prenorm_residual"},
    {"residual_in_fp32"},
    {"rms_norm_eps"},
    {"rope_theta"},
    {"sliding_window", "[null]"},
    {"time_step_floor"},
    {"time_step_limit", "[[0, {\"__float__\": \"Infinity\"}]]"},
    {"time_step_max"},
    {"time_step_rank"},
    {"use_mamba_kernels"},
};

}  // namespace

const HuggingFaceKind nemotron_h_kind{.class_name = "NemotronHForCausalLM",
                                      .model_type = "nemotron_h",
                                      .names = &nemotron_h_names,
                                      .read = read_nemotron_h,
                                      .write = write_nemotron_h,
                                      .inert = nemotron_h_keys,
                                      .experts = {.layer = "mixer.", .shared = "shared_experts."}};

}  // namespace trireme
