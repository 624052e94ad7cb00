// Qwen3-Next and the text part of Qwen3.5: layers with a gated delta net, every few layers gated
// attention, and experts, or without them a dense Qwen3.5.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "formats/huggingface/kinds/llama.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kQwen3Next{
    .kv_heads = 2, .head_dim = 256, .positions = 32768, .reads_rope = false};
constexpr LlamaDefaults kQwen35{
    .kv_heads = 4, .head_dim = 256, .positions = 32768, .reads_rope = false};
constexpr LlamaDefaults kQwen35Moe{.kv_heads = 2,
                                   .head_dim = 256,
                                   .positions = 32768,
                                   .reads_rope = false,
                                   .inner = "moe_intermediate_size"};

// The layers with linear attention: those that layer_types names, or all but the last of every
// round of layers.
void read_linear_layers(const HuggingFaceReader& json, ModelConfig& m) {
  if (!json.has("layer_types")) {
    const std::int64_t round = json.size("full_attention_interval", "layer_interval", 4);
    for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
      if ((layer + 1) % round != 0) m.linear_layers.push_back(layer);
    return;
  }
  json.pass_over({"full_attention_interval"});
  const auto& types = json["layer_types"];
  if (!types.is_array() || static_cast<std::int64_t>(types.size()) != m.num_layers)
    json.refuse("layer_types", "it must name the kind of each of num_hidden_layers layers");
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer) {
    const auto& type = types[static_cast<std::size_t>(layer)];
    if (type == "linear_attention")
      m.linear_layers.push_back(layer);
    else if (type != "full_attention")
      json.refuse("layer_types", "a layer must be linear_attention or full_attention");
  }
}

void read_linear_attention(const HuggingFaceReader& json, ModelConfig& m) {
  read_linear_layers(json, m);
  if (m.linear_layers.empty())
    return json.pass_over({"linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
                           "linear_value_head_dim", "linear_conv_kernel_dim"});
  m.linear_key_heads = json.size("linear_num_key_heads", "linear_key_heads", 16);
  m.linear_value_heads = json.size("linear_num_value_heads", "linear_value_heads", 32);
  m.linear_key_head_dim = json.size("linear_key_head_dim", "linear_key_head_dim", 128);
  m.linear_value_head_dim = json.size("linear_value_head_dim", "linear_value_head_dim", 128);
  m.linear_conv_width = json.size("linear_conv_kernel_dim", "linear_conv_width", 4);
}

void read_all_experts(const HuggingFaceReader& json, ModelConfig& m, std::int64_t otherwise,
                      std::int64_t top_k) {
  read_experts(json, m, otherwise, top_k, 0.001);
  m.moe.ffn_hidden_size = json.size("moe_intermediate_size", "ffn_hidden_size", 512);
  m.moe.shared_ffn_hidden_size =
      json.size("shared_expert_intermediate_size", "shared_ffn_hidden_size", 512);
  m.moe.shared_gate = m.moe.shared_ffn_hidden_size > 0;
}

// What the classes share; `modules` is the key that counts modules of multi-token prediction.
ModelConfig read_hybrid(const HuggingFaceReader& json, const LlamaDefaults& defaults,
                        const char* modules) {
  ModelConfig m = read_llama_like(json, defaults);
  json.must_be("attention_bias", false);
  m.rope_percent = 0.25;
  read_rope(json, m, 10000, RotaryShare::given);
  m.qk_norm = m.attention_gate = true;
  m.zero_centered_norms = m.zero_centered_qk_norms = true;
  read_linear_attention(json, m);
  if (json.has(modules) && json[modules] != 0) m.mtp_layers = json.size(modules, "mtp_layers");
  if (m.mtp_layers > 1) json.refuse(modules, "this kind of model has one module at most");
  return m;
}

ModelConfig read_qwen3_next(const HuggingFaceReader& json) {
  ModelConfig m = read_hybrid(json, kQwen3Next, "num_nextn_predict_layers");
  if (json.has("num_experts") && json["num_experts"] == 0) {
    json.pass_over({"num_experts", "num_experts_per_tok", "moe_intermediate_size",
                    "shared_expert_intermediate_size", "norm_topk_prob", "router_aux_loss_coef",
                    "decoder_sparse_step", "mlp_only_layers"});
  } else {
    read_all_experts(json, m, 512, 10);
    m.moe.normalize_weights = json.flag("norm_topk_prob", true);
    read_sparse_layers(json, m);
  }
  return m;
}

// Sections of the rotary pairs for time, height and width turn alike in texts.
ModelConfig read_qwen3_5_like(const HuggingFaceReader& json, const LlamaDefaults& defaults) {
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (has_parameters(json, key))
      json.section(key).pass_over({"mrope_section", "mrope_interleaved"});
  json.must_be("attn_output_gate", true);
  json.must_be("mtp_use_dedicated_embeddings", false);
  return read_hybrid(json, defaults, "mtp_num_hidden_layers");
}

ModelConfig read_qwen3_5(const HuggingFaceReader& json) {
  return read_qwen3_5_like(json, kQwen35);
}

ModelConfig read_qwen3_5_moe(const HuggingFaceReader& json) {
  ModelConfig m = read_qwen3_5_like(json, kQwen35Moe);
  read_all_experts(json, m, 256, 8);
  m.moe.normalize_weights = true;
  return m;
}

HuggingFaceJson write_hybrid(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["attention_bias"] = false;
  json["partial_rotary_factor"] = m.rope_percent;
  HuggingFaceJson types = HuggingFaceJson::array();
  for (std::int64_t layer = 0; layer < m.num_layers; ++layer)
    types.push_back(m.linear_in_layer(layer) ? "linear_attention" : "full_attention");
  json["layer_types"] = types;
  if (!m.linear_layers.empty()) {
    json["linear_num_key_heads"] = m.linear_key_heads;
    json["linear_num_value_heads"] = m.linear_value_heads;
    json["linear_key_head_dim"] = m.linear_key_head_dim;
    json["linear_value_head_dim"] = m.linear_value_head_dim;
    json["linear_conv_kernel_dim"] = m.linear_conv_width;
  }
  return json;
}

HuggingFaceJson write_qwen3_next(const ModelConfig& m) {
  HuggingFaceJson json = write_hybrid(m);
  if (m.mtp_layers > 0) json["num_nextn_predict_layers"] = m.mtp_layers;
  write_experts(json, m, "num_experts");
  if (m.moe.num_experts == 0) return json;
  json["shared_expert_intermediate_size"] = m.moe.shared_ffn_hidden_size;
  write_sparse_layers(json, m);
  return json;
}

HuggingFaceJson write_qwen3_5(const ModelConfig& m) {
  HuggingFaceJson json = write_hybrid(m);
  if (m.mtp_layers > 0) json["mtp_num_hidden_layers"] = m.mtp_layers;
  return json;
}

HuggingFaceJson write_qwen3_5_moe(const ModelConfig& m) {
  HuggingFaceJson json = write_qwen3_5(m);
  json.erase("intermediate_size");
  json["moe_intermediate_size"] = m.moe.ffn_hidden_size;
  json["shared_expert_intermediate_size"] = m.moe.shared_ffn_hidden_size;
  write_experts(json, m, "num_experts");
  return json;
}

constexpr HuggingFaceInertKey qwen3_next_keys[] = {
    {"mlp_bias"},
    {"sliding_window"},
    {"use_sliding_window", "[false]"},
    {"max_window_layers"},
};

// The width of the MLP is read where there is one.
constexpr HuggingFaceInertKey qwen3_5_keys[] = {
    {"intermediate_size"}, {"mamba_ssm_dtype"}, {"max_window_layers"}, {"mlp_bias"},
    {"mlp_only_layers"},   {"norm_topk_prob"},  {"sliding_window"},    {"use_sliding_window"},
};

}  // namespace

const HuggingFaceKind qwen3_next_kind{.class_name = "Qwen3NextForCausalLM",
                                      .model_type = "qwen3_next",
                                      .names = &llama_names,
                                      .read = read_qwen3_next,
                                      .write = write_qwen3_next,
                                      .inert = qwen3_next_keys,
                                      .layers = {.module_apart = true}};
const HuggingFaceKind qwen3_5_kind{.class_name = "Qwen3_5ForCausalLM",
                                   .model_type = "qwen3_5_text",
                                   .names = &llama_names,
                                   .read = read_qwen3_5,
                                   .write = write_qwen3_5,
                                   .inert = qwen3_5_keys,
                                   .layers = {.module_apart = true, .linear_parts = true}};
const HuggingFaceKind qwen3_5_moe_kind{.class_name = "Qwen3_5MoeForCausalLM",
                                       .model_type = "qwen3_5_moe_text",
                                       .names = &llama_names,
                                       .read = read_qwen3_5_moe,
                                       .write = write_qwen3_5_moe,
                                       .inert = qwen3_5_keys,
                                       .layers = {.module_apart = true, .linear_parts = true}};

}  // namespace trireme
