// GLM-4: RoPE on adjacent pairs in a part of each head, gate and up in one tensor. Its second class
// also has norms after attention and MLP.
#include <nlohmann/json.hpp>

#include "formats/huggingface/kinds/llama.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kGlm{.kv_heads = 2,
                             .head_dim = 128,
                             .positions = 131072,
                             .norm_eps = 1.5625e-7,
                             .reads_rope = false};

ModelConfig read_glm(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kGlm);
  refuse_window(json);
  m.rope_percent = 0.5;
  read_rope(json, m, kGlm.rope_base, RotaryShare::given);
  m.qkv_bias = json.flag("attention_bias", true);
  return m;
}

ModelConfig read_glm4(const HuggingFaceReader& json) {
  ModelConfig m = read_glm(json);
  m.norm_placement = NormPlacement::both;
  return m;
}

HuggingFaceJson write_glm(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["partial_rotary_factor"] = m.rope_percent;
  json["attention_bias"] = m.qkv_bias;
  return json;
}

}  // namespace

const HuggingFaceKind glm_kind{.class_name = "GlmForCausalLM",
                               .model_type = "glm",
                               .names = &llama_names,
                               .read = read_glm,
                               .write = write_glm,
                               .inert = olmo2_keys,
                               .layers = {.gate_up_together = true, .turns_neighbors = true}};
const HuggingFaceKind glm4_kind{.class_name = "Glm4ForCausalLM",
                                .model_type = "glm4",
                                .names = &llama_names,
                                .read = read_glm4,
                                .write = write_glm,
                                .inert = olmo2_keys,
                                .layers = {.attention_out_norm = "post_self_attn_layernorm",
                                           .mlp_norm = "post_attention_layernorm",
                                           .mlp_out_norm = "post_mlp_layernorm",
                                           .gate_up_together = true,
                                           .turns_neighbors = true}};

}  // namespace trireme
