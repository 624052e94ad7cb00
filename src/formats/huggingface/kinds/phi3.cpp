// Phi-3 and Phi-4: Llama with fused QKV, fused gate and up, and optionally partial
// RoPE.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "formats/huggingface/kinds/llama.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kPhi3{.positions = 4096, .norm_eps = 1e-5, .reads_rope = false};

// Length that the class assumes without the key, whatever the RoPE parameters have.
constexpr std::int64_t kOriginalLength = 4096;
constexpr const char* kOriginalKey = "original_max_position_embeddings";

// The class takes any scaling for longrope.
void check_scaling(const HuggingFaceReader& json, const ModelConfig& m) {
  if (m.rope_scaling == RopeScaling::none) return;
  const char* const key = json.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  if (m.rope_scaling != RopeScaling::longrope)
    json.refuse(key, "this class supports only longrope scaling");
  if (!json.has(kOriginalKey) && m.rope_original_length != kOriginalLength)
    json.refuse(key, fmt::format("without {} beside it this class assumes {}, and not {}: set it",
                                 kOriginalKey, kOriginalLength, m.rope_original_length));
}

ModelConfig read_phi3(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kPhi3);
  read_window(json, m);
  json.must_be("resid_pdrop", 0);
  read_rope(json, m, kPhi3.rope_base, RotaryShare::given);
  check_scaling(json, m);
  return m;
}

HuggingFaceJson write_phi3(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["partial_rotary_factor"] = m.rope_percent;
  json["resid_pdrop"] = 0.0;
  write_window(json, m);
  if (m.rope_scaling == RopeScaling::longrope) {
    json["rope_scaling"].erase(kOriginalKey);
    json[kOriginalKey] = m.rope_original_length;
  }
  return json;
}

constexpr HuggingFaceInertKey phi3_keys[] = {
    {"attention_bias"},
    {"embd_pdrop"},
    {"full_attn_mod"},
    {"interpolate_factor"},
    {"layer_types", "[null]"},
    {"lm_head_bias", "[false]"},
    {"mlp_bias"},
};

}  // namespace

const HuggingFaceKind phi3_kind{.class_name = "Phi3ForCausalLM",
                                .model_type = "phi3",
                                .names = &llama_names,
                                .read = read_phi3,
                                .write = write_phi3,
                                .inert = phi3_keys,
                                .layers = {.qkv_together = true, .gate_up_together = true}};

}  // namespace trireme
