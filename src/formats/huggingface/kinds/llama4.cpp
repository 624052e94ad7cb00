// config.json of the text part of Llama 4: attention within chunks in layers with RoPE, queries
// that grow with their position in those without, and experts whose inputs are scaled.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/rotary.h"
#include "formats/huggingface/kinds/llama.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kLlama4{.kv_heads = 8,
                                .head_dim = 128,
                                .positions = 131072,
                                .norm_eps = 1e-5,
                                .reads_rope = false,
                                .inner = "intermediate_size_mlp"};
constexpr double kLlama4Base = 500000;
constexpr std::int64_t kChunk = 8192;

// Older files have a number, of which only 0 means no.
bool tunes_temperature(const HuggingFaceReader& json) {
  const char* const key = "attn_temperature_tuning";
  if (json.has(key) && json[key].is_number()) return json[key] != 0;
  return json.flag(key, true);
}

// The norms follow the rotation, so a factor on its tables would have no effect.
void read_attention(const HuggingFaceReader& json, ModelConfig& m) {
  json.must_be("attention_bias", false);
  read_rope(json, m, kLlama4Base);
  m.no_rope_layers = layers_without_rope(json, m);
  m.qk_l2_norm = json.flag("use_qk_norm", true);
  if (m.qk_l2_norm && rotary_amplitude(m) != 1)
    json.refuse(json.has("rope_scaling") ? "rope_scaling" : "rope_parameters",
                "with use_qk_norm its factor on queries and keys must be 1");
  if (!tunes_temperature(json) || m.no_rope_layers.empty())
    return json.pass_over({"attn_scale", "floor_scale"});
  m.no_rope_query_beta = json.number("attn_scale", "no_rope_query_beta", 0.1);
  m.no_rope_query_length = json.size("floor_scale", "no_rope_query_length", 8192);
}

// The layers with chunks: those that layer_types names, or those with RoPE.
void read_chunks(const HuggingFaceReader& json, ModelConfig& m) {
  std::vector<std::int64_t> with;
  const bool chunks = !json.is_null("attention_chunk_size");
  if (json.has("layer_types")) {
    const auto& types = json["layer_types"];
    const auto known = [](const auto& type) {
      return type == "chunked_attention" || type == "full_attention";
    };
    if (!types.is_array() || static_cast<std::int64_t>(types.size()) != m.num_layers ||
        !std::ranges::all_of(types, known))
      json.refuse("layer_types",
                  "it must name chunked_attention or full_attention for each layer of "
                  "num_hidden_layers");
    for (std::size_t layer = 0; layer < types.size(); ++layer)
      if (types[layer] == "chunked_attention") with.push_back(static_cast<std::int64_t>(layer));
  } else {
    for (std::int64_t layer = 0; chunks && layer < m.num_layers; ++layer)
      if (std::ranges::find(m.no_rope_layers, layer) == m.no_rope_layers.end())
        with.push_back(layer);
  }
  if (with.empty()) return json.pass_over({"attention_chunk_size"});
  if (!chunks) json.refuse("attention_chunk_size", "layers with chunked attention require it");
  m.attention_window = json.size("attention_chunk_size", "attention_window", kChunk);
  m.window_chunks = true;
  if (static_cast<std::int64_t>(with.size()) < m.num_layers) m.window_layers = std::move(with);
}

std::vector<std::int64_t> read_expert_layers(const HuggingFaceReader& json, const ModelConfig& m) {
  std::vector<std::int64_t> with;
  if (!json.has("moe_layers")) {
    const std::int64_t step = json.size("interleave_moe_layer_step", "layer_interval", 1);
    for (std::int64_t layer = step - 1; layer < m.num_layers; layer += step) with.push_back(layer);
    return with;
  }
  json.pass_over({"interleave_moe_layer_step"});
  const auto& list = json["moe_layers"];
  const auto is_number = [](const auto& layer) { return layer.is_number_integer(); };
  if (!list.is_array() || !std::ranges::all_of(list, is_number))
    json.refuse("moe_layers", "it must be a list of layers");
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
    if (std::find(list.begin(), list.end(), layer) != list.end()) with.push_back(layer);
  return with;
}

void read_llama4_experts(const HuggingFaceReader& json, ModelConfig& m) {
  std::vector<std::int64_t> with = read_expert_layers(json, m);
  json.must_be("router_jitter_noise", 0);
  if (with.empty())
    return json.pass_over({"intermediate_size", "num_local_experts", "num_experts_per_tok"});
  ExpertConfig& moe = m.moe;
  moe.num_experts = json.size("num_local_experts", "num_experts", 16);
  moe.top_k = json.size("num_experts_per_tok", "top_k", 1);
  moe.ffn_hidden_size = json.size("intermediate_size", "ffn_hidden_size", 8192);
  moe.shared_ffn_hidden_size = moe.ffn_hidden_size;
  moe.score = RouterScore::sigmoid;
  moe.normalize_weights = false;
  moe.scale_inputs = true;
  if (static_cast<std::int64_t>(with.size()) < m.num_layers) moe.layers = std::move(with);
}

ModelConfig read_llama4(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kLlama4);
  read_attention(json, m);
  read_chunks(json, m);
  read_llama4_experts(json, m);
  return m;
}

HuggingFaceJson write_llama4(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["intermediate_size_mlp"] = m.ffn_hidden_size;
  json["attention_bias"] = false;
  write_layers_with_rope(json, m);
  HuggingFaceJson types = HuggingFaceJson::array(), sparse = HuggingFaceJson::array();
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
    types.push_back(m.window_in_layer(layer) ? "chunked_attention" : "full_attention");
    if (m.moe.in_layer(layer)) sparse.push_back(layer);
  }
  json["layer_types"] = types;
  // The class wants a size even where no layer has chunks.
  json["attention_chunk_size"] = m.attention_window > 0 ? m.attention_window : kChunk;
  json["use_qk_norm"] = m.qk_l2_norm;
  json["attn_temperature_tuning"] = m.no_rope_query_beta > 0;
  json["attn_scale"] = m.no_rope_query_beta;
  json["floor_scale"] = m.no_rope_query_length;
  json["moe_layers"] = sparse;
  if (m.moe.num_experts == 0) return json;
  json["intermediate_size"] = m.moe.ffn_hidden_size;
  json["num_local_experts"] = m.moe.num_experts;
  json["num_experts_per_tok"] = m.moe.top_k;
  return json;
}

constexpr HuggingFaceInertKey llama4_keys[] = {
    {"for_llm_compressor", "[false]"},
    {"mlp_bias"},
    {"router_aux_loss_coef"},
    {"sliding_window"},
};

}  // namespace

const HuggingFaceKind llama4_kind{
    .class_name = "Llama4ForCausalLM",
    .model_type = "llama4_text",
    .names = &llama_names,
    .read = read_llama4,
    .write = write_llama4,
    .inert = llama4_keys,
    .experts = {.layer = "feed_forward.",
                .router = "router",
                .joint = HuggingFaceExpertNames::Joint::gate_before_up},
    .layers = {.mlp = "feed_forward.", .turns_neighbors = true}};

}  // namespace trireme
