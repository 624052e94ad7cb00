// config.json of gpt-oss: experts with biases and a clamped gate, attention with sinks, and windows
// in every second layer.
#include <nlohmann/json.hpp>

#include "formats/huggingface/kinds/llama.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kGptOss{.kv_heads = 8,
                                .head_dim = 64,
                                .positions = 131072,
                                .norm_eps = 1e-5,
                                .rope_base = 150000,
                                .reads_rope = false};

// transformers assumes this scaling where a file has no rotary parameters at all: an empty
// "rope_parameters" means rotation without a scaling.
void assume_rope(ModelConfig& m) {
  m.rope_base = kGptOss.rope_base;
  m.rope_scaling = RopeScaling::yarn;
  m.rope_scaling_factor = 32;
  m.rope_original_length = 4096;
  m.rope_truncate = false;
}

// Experts in all layers; their router takes the softmax over those that it chooses.
void read_gpt_oss_experts(const HuggingFaceReader& json, ModelConfig& m) {
  ExpertConfig& moe = m.moe;
  moe.num_experts = json.size(json.either("num_local_experts", "num_experts"), "num_experts", 128);
  moe.top_k = json.size(json.either("num_experts_per_tok", "experts_per_token"), "top_k", 4);
  moe.ffn_hidden_size = m.ffn_hidden_size;
  moe.router_bias = moe.linear_bias = true;
  moe.aux_loss_coeff = json.number("router_aux_loss_coef", "aux_loss_coeff", 0.001) *
                       static_cast<double>(moe.top_k) / static_cast<double>(m.num_layers);
}

ModelConfig read_gpt_oss(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kGptOss);
  m.activation_clamp = json.number("swiglu_limit", "activation_clamp", 7);
  m.gate_alpha = json.number("swiglu_alpha", "gate_alpha", 1.702);
  m.gate_offset = 1;
  m.attention_sinks = true;
  m.bias = m.qkv_bias = json.flag("attention_bias", true);
  if (has_parameters(json, "rope_scaling") || json.has("rope_parameters"))
    read_rope(json, m, kGptOss.rope_base);
  else
    assume_rope(m);
  read_gpt_oss_experts(json, m);
  read_rounds_of_windows(json, m, 2);
  if (m.attention_window > 0 && !json.has("sliding_window")) m.attention_window = 128;
  return m;
}

HuggingFaceJson write_gpt_oss(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["intermediate_size"] = m.moe.ffn_hidden_size;
  json["num_local_experts"] = m.moe.num_experts;
  json["num_experts_per_tok"] = m.moe.top_k;
  json["router_aux_loss_coef"] =
      m.moe.aux_loss_coeff * static_cast<double>(m.num_layers) / static_cast<double>(m.moe.top_k);
  json["swiglu_limit"] = m.activation_clamp;
  json["swiglu_alpha"] = m.gate_alpha;
  json["attention_bias"] = m.bias;
  json["sliding_window"] = m.attention_window > 0 ? m.attention_window : 128;
  write_layer_types(json, m);
  json["rope_scaling"] = write_full_rope(m);
  return json;
}

constexpr HuggingFaceInertKey gpt_oss_keys[] = {
    {"initial_context_length"},
    {"mlp_bias"},
};

}  // namespace

const HuggingFaceKind gpt_oss_kind{
    "GptOssForCausalLM",
    "gpt_oss",
    &llama_names,
    read_gpt_oss,
    write_gpt_oss,
    gpt_oss_keys,
    {.router = "router", .joint = HuggingFaceExpertNames::Joint::gate_and_up_take_turns}};

}  // namespace trireme
