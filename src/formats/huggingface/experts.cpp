// config.json of Llama-like MoE models. transformers computes one balance loss over all layers, so
// its coefficient corresponds only approximately to ours per layer times layers / top_k.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/huggingface/kinds/llama.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kMixtral{
    .kv_heads = 8, .positions = 131072, .norm_eps = 1e-5, .rope_base = 1e6};
constexpr LlamaDefaults kQwen2Moe{.kv_heads = 16, .positions = 32768};
constexpr LlamaDefaults kQwen3Moe{.kv_heads = 4, .positions = 32768};
constexpr LlamaDefaults kOlmoe{.positions = 4096, .norm_eps = 1e-5};

// Mixtral: Llama with experts in all layers.
ModelConfig read_mixtral(const HuggingFaceReader& json) {
  json.must_be("router_jitter_noise", 0);
  ModelConfig m = read_llama_like(json, kMixtral);
  read_window(json, m);
  read_experts(json, m, 8, 2, 0.001);
  m.moe.ffn_hidden_size = m.ffn_hidden_size;
  return m;
}

// Qwen2-MoE: Llama with QKV biases, and layers with routed experts and a shared expert.
ModelConfig read_qwen2_moe(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kQwen2Moe);
  read_qwen2_moe_window(json, m);
  m.qkv_bias = json.flag("qkv_bias", true);
  read_experts(json, m, 60, 4, 0.001);
  m.moe.ffn_hidden_size = json.size("moe_intermediate_size", "ffn_hidden_size", 1408);
  m.moe.shared_ffn_hidden_size =
      json.size("shared_expert_intermediate_size", "shared_ffn_hidden_size", 5632);
  m.moe.shared_gate = true;
  m.moe.normalize_weights = json.flag("norm_topk_prob", false);
  read_sparse_layers(json, m);
  return m;
}

// Qwen3-MoE: no shared expert. Its window, if any, applies to all layers.
ModelConfig read_qwen3_moe(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kQwen3Moe);
  json.must_be("attention_bias", false);
  json.must_be_absent("layer_types", "its layers all have the same attention: remove it");
  if (json.flag("use_sliding_window", false)) {
    m.attention_window = 4096;
    read_window(json, m);
  }
  json.pass_over({"sliding_window"});
  m.qk_norm = true;
  read_experts(json, m, 128, 8, 0.001);
  m.moe.ffn_hidden_size = json.size("moe_intermediate_size", "ffn_hidden_size", 768);
  m.moe.normalize_weights = json.flag("norm_topk_prob", false);
  read_sparse_layers(json, m);
  return m;
}

// OLMoE: experts in all layers, and QK norms over all heads.
ModelConfig read_olmoe(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kOlmoe);
  json.must_be("attention_bias", false);
  json.must_be_absent("clip_qkv", "clipping of queries, keys and values is not supported");
  refuse_window(json);
  if (m.head_dim > 0 && m.head_dim * m.num_heads != m.hidden_size)
    json.refuse("head_dim", "it must be hidden_size / num_attention_heads");
  m.qk_norm = true;
  m.qk_norm_over = NormSpan::all_heads;
  read_experts(json, m, 64, 8, 0.01);
  m.moe.ffn_hidden_size = m.ffn_hidden_size;
  m.moe.normalize_weights = json.flag("norm_topk_prob", false);
  return m;
}

HuggingFaceJson write_mixtral(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["intermediate_size"] = m.moe.ffn_hidden_size;
  write_experts(json, m, "num_local_experts");
  json["router_jitter_noise"] = 0.0;
  write_window(json, m);
  return json;
}

HuggingFaceJson write_qwen2_moe(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json.erase("head_dim");
  json["qkv_bias"] = m.qkv_bias;
  json["use_sliding_window"] = m.attention_window > 0;
  if (m.attention_window > 0) {
    write_window(json, m);
    write_layer_types(json, m);
  }
  write_experts(json, m, "num_experts");
  json["shared_expert_intermediate_size"] = m.moe.shared_ffn_hidden_size;
  write_sparse_layers(json, m);
  return json;
}

HuggingFaceJson write_qwen3_moe(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["attention_bias"] = false;
  json["use_sliding_window"] = m.attention_window > 0;
  write_window(json, m);
  write_experts(json, m, "num_experts");
  write_sparse_layers(json, m);
  return json;
}

HuggingFaceJson write_olmoe(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json.erase("head_dim");
  json["intermediate_size"] = m.moe.ffn_hidden_size;
  json["attention_bias"] = false;
  json["clip_qkv"] = nullptr;
  write_experts(json, m, "num_experts");
  json["norm_topk_prob"] = m.moe.normalize_weights;
  return json;
}

constexpr HuggingFaceInertKey qwen3_moe_keys[] = {
    {"max_window_layers"},  // any window applies to all layers
    {"mlp_bias"},
};

}  // namespace

// The number of experts has two key names; `otherwise` is the default if neither is set.
void read_experts(const HuggingFaceReader& json, ModelConfig& m, std::int64_t otherwise,
                  std::int64_t top_k, double coefficient) {
  m.moe.num_experts =
      json.size(json.either("num_experts", "num_local_experts"), "num_experts", otherwise);
  m.moe.top_k = json.size("num_experts_per_tok", "top_k", top_k);
  m.moe.aux_loss_coeff = json.number("router_aux_loss_coef", "aux_loss_coeff", coefficient) *
                         static_cast<double>(m.moe.top_k) / static_cast<double>(m.num_layers);
}

// Layers with experts: the last of every n layers, except those in a list of dense layers.
void read_sparse_layers(const HuggingFaceReader& json, ModelConfig& m) {
  const std::int64_t step = json.size("decoder_sparse_step", "layer_interval", 1);
  std::vector<std::int64_t> dense;
  if (json.has("mlp_only_layers")) {
    const auto& list = json["mlp_only_layers"];
    const auto is_number = [](const auto& layer) { return layer.is_number_integer(); };
    if (!list.is_array() || !std::ranges::all_of(list, is_number))
      json.refuse("mlp_only_layers", "it must be a list of layers");
    for (const auto& layer : list) dense.push_back(layer.template get<std::int64_t>());
  }
  std::vector<std::int64_t> sparse;
  for (std::int64_t layer = step - 1; layer < m.num_layers; layer += step)
    if (std::ranges::find(dense, layer) == dense.end()) sparse.push_back(layer);
  if (sparse.empty()) {
    json.refuse(
        dense.empty() ? "decoder_sparse_step" : "mlp_only_layers",
        fmt::format("with num_hidden_layers = {} it leaves no layer with experts", m.num_layers));
  }
  if (dense.empty()) {
    m.moe.first_layer = step - 1;
    m.moe.layer_interval = step;
  } else {
    m.moe.layers = std::move(sparse);
  }
}

void write_experts(HuggingFaceJson& json, const ModelConfig& m, const char* count) {
  json[count] = m.moe.num_experts;
  json["num_experts_per_tok"] = m.moe.top_k;
  json["router_aux_loss_coef"] =
      m.moe.aux_loss_coeff * static_cast<double>(m.num_layers) / static_cast<double>(m.moe.top_k);
}

// Writes the layers as an interval if transformers counts that way, else as a list of dense
// layers.
void write_sparse_layers(HuggingFaceJson& json, const ModelConfig& m) {
  const ExpertConfig& moe = m.moe;
  json["moe_intermediate_size"] = moe.ffn_hidden_size;
  json["norm_topk_prob"] = moe.normalize_weights;
  const bool regular = moe.layers.empty() && moe.first_layer == moe.layer_interval - 1;
  json["decoder_sparse_step"] = regular ? moe.layer_interval : 1;
  HuggingFaceJson dense = HuggingFaceJson::array();
  for (std::int64_t layer = 0; !regular && layer < m.num_layers; ++layer)
    if (!moe.in_layer(layer)) dense.push_back(layer);
  json["mlp_only_layers"] = dense;
}

const HuggingFaceKind mixtral_kind{
    "MixtralForCausalLM",
    "mixtral",
    &llama_names,
    read_mixtral,
    write_mixtral,
    mistral_keys,
    {.layer = "block_sparse_moe.", .gate = "w1", .up = "w3", .down = "w2"}};
const HuggingFaceKind qwen2_moe_kind{"Qwen2MoeForCausalLM", "qwen2_moe",     &llama_names,
                                     read_qwen2_moe,        write_qwen2_moe, qwen2_keys};
const HuggingFaceKind qwen3_moe_kind{"Qwen3MoeForCausalLM", "qwen3_moe",     &llama_names,
                                     read_qwen3_moe,        write_qwen3_moe, qwen3_moe_keys};
const HuggingFaceKind olmoe_kind{"OlmoeForCausalLM", "olmoe",     &llama_names,
                                 read_olmoe,         write_olmoe, olmo2_keys};

}  // namespace trireme
