// Granite 4: Granite with Mamba-2 in most layers, attention without positions in the others, and
// optionally experts beside a shared one.
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/huggingface/kinds/llama.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kGraniteHybrid{.reads_rope = false, .inner = "shared_intermediate_size"};

void read_positions(const HuggingFaceReader& json, ModelConfig& m) {
  const char* const key = "position_embedding_type";
  if (json.has(key) && json[key] == "rope") return read_rope(json, m, kGraniteHybrid.rope_base);
  m.position = PositionEncoding::none;
  json.pass_over({key, "rope_theta", "rope_scaling", "rope_parameters"});
}

// Without layer_types every layer has Mamba-2. Older files say mamba and attention.
void read_mamba_layers(const HuggingFaceReader& json, ModelConfig& m) {
  const bool named = json.has("layer_types");
  const auto is = [&](std::int64_t layer, const char* one, const char* other) {
    const auto& type = json["layer_types"][static_cast<std::size_t>(layer)];
    return type == one || type == other;
  };
  if (named && (!json["layer_types"].is_array() ||
                static_cast<std::int64_t>(json["layer_types"].size()) != m.num_layers))
    json.refuse("layer_types", "it must name the kind of each of num_hidden_layers layers");
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
    if (!named || is(layer, "mamba", "linear_attention"))
      m.linear_layers.push_back(layer);
    else if (!is(layer, "attention", "full_attention"))
      json.refuse("layer_types", "a layer must be mamba or attention");
  }
}

void read_mamba(const HuggingFaceReader& json, ModelConfig& m) {
  read_mamba_layers(json, m);
  if (m.linear_layers.empty())
    return json.pass_over({"mamba_n_groups", "mamba_n_heads", "mamba_d_state", "mamba_d_head",
                           "mamba_d_conv", "mamba_conv_bias", "mamba_proj_bias", "mamba_expand"});
  m.linear_kind = LinearKind::mamba2;
  m.linear_key_heads = json.size("mamba_n_groups", "linear_key_heads", 1);
  m.linear_value_heads = json.size("mamba_n_heads", "linear_value_heads", 128);
  m.linear_key_head_dim = json.size("mamba_d_state", "linear_key_head_dim", 256);
  m.linear_conv_width = json.size("mamba_d_conv", "linear_conv_width", 4);
  m.linear_conv_bias = json.flag("mamba_conv_bias", true);
  json.must_be("mamba_proj_bias", false);
  const std::int64_t width = json.size("mamba_expand", "linear_value_head_dim", 2) * m.hidden_size;
  const bool follows = !json.has("mamba_d_head") || json["mamba_d_head"] == "auto";
  if (follows) json.pass_over({"mamba_d_head"});
  m.linear_value_head_dim =
      follows ? width / m.linear_value_heads : json.size("mamba_d_head", "linear_value_head_dim");
  if (m.linear_value_head_dim * m.linear_value_heads != width)
    json.refuse("mamba_expand",
                "mamba_n_heads heads of mamba_d_head must be mamba_expand times hidden_size");
}

void read_granite_experts(const HuggingFaceReader& json, ModelConfig& m) {
  if (json.has("num_local_experts") && json["num_local_experts"] == 0)
    return json.pass_over(
        {"num_local_experts", "num_experts_per_tok", "intermediate_size", "router_aux_loss_coef"});
  read_experts(json, m, 8, 2, 0.001);
  m.moe.ffn_hidden_size = json.size("intermediate_size", "ffn_hidden_size", 11008);
  m.moe.shared_ffn_hidden_size = m.ffn_hidden_size;
  m.moe.normalize_weights = true;
}

ModelConfig read_granite_hybrid(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kGraniteHybrid);
  json.must_be("attention_bias", false);
  read_granite_factors(json, m);
  read_positions(json, m);
  read_mamba(json, m);
  read_granite_experts(json, m);
  return m;
}

HuggingFaceJson write_granite_hybrid(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["attention_bias"] = false;
  write_granite_factors(json, m);
  const bool rope = m.position == PositionEncoding::rope;
  json["position_embedding_type"] = rope ? HuggingFaceJson("rope") : HuggingFaceJson(nullptr);
  if (!rope) json.erase("rope_scaling");
  HuggingFaceJson types = HuggingFaceJson::array();
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
    types.push_back(m.linear_in_layer(layer) ? "mamba" : "attention");
  json["layer_types"] = types;
  // The class wants sizes that fit even where no layer has them.
  const bool has = !m.linear_layers.empty();
  const std::int64_t heads = has ? m.linear_value_heads : 1;
  const std::int64_t width = has ? heads * m.linear_value_head_dim : m.hidden_size;
  json["mamba_n_heads"] = heads;
  json["mamba_d_head"] = width / heads;
  json["mamba_expand"] = width / m.hidden_size;
  if (has) {
    json["mamba_n_groups"] = m.linear_key_heads;
    json["mamba_d_state"] = m.linear_key_head_dim;
    json["mamba_d_conv"] = m.linear_conv_width;
    json["mamba_conv_bias"] = m.linear_conv_bias;
    json["mamba_proj_bias"] = false;
  }
  json["shared_intermediate_size"] = m.ffn_hidden_size;
  write_experts(json, m, "num_local_experts");
  if (m.moe.num_experts > 0) {
    json["shared_intermediate_size"] = m.moe.shared_ffn_hidden_size;
    json["intermediate_size"] = m.moe.ffn_hidden_size;
  }
  return json;
}

constexpr HuggingFaceInertKey granite_hybrid_keys[] = {
    {"init_method"},    {"mamba_chunk_size"},
    {"mlp_bias"},       {"normalization_function", "[\"rmsnorm\"]"},
    {"sliding_window"}, {"time_step_limit", "[[0, {\"__float__\": \"Infinity\"}]]"},
};

}  // namespace

const HuggingFaceKind granite_hybrid_kind{
    .class_name = "GraniteMoeHybridForCausalLM",
    .model_type = "granitemoehybrid",
    .names = &llama_names,
    .read = read_granite_hybrid,
    .write = write_granite_hybrid,
    .inert = granite_hybrid_keys,
    .experts = {.layer = "block_sparse_moe.",
                .router = "router.layer",
                .joint = HuggingFaceExpertNames::Joint::by_rows,
                .shared_like_mlp = true},
    .layers = {.mlp = "shared_mlp.",
               .gate_up = "input_linear",
               .mlp_down = "output_linear",
               .gate_up_together = true}};

}  // namespace trireme
