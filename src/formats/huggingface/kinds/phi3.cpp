// Phi-3 and Phi-4: Llama with fused QKV, fused gate and up, and optionally partial
// RoPE.
#include <nlohmann/json.hpp>

#include "formats/huggingface/kinds/llama.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kPhi3{.positions = 4096, .norm_eps = 1e-5, .reads_rope = false};

// The class takes "yarn" for its longrope, whose length-dependent factors are not supported.
ModelConfig read_phi3(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kPhi3);
  read_window(json, m);
  json.must_be("resid_pdrop", 0);
  read_rope(json, m, kPhi3.rope_base, RotaryShare::given);
  if (m.rope_scaling != RopeScaling::none) {
    json.refuse(json.has("rope_scaling") ? "rope_scaling" : "rope_parameters",
                "this class supports only longrope scaling, which is not supported");
  }
  return m;
}

HuggingFaceJson write_phi3(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["partial_rotary_factor"] = m.rope_percent;
  json["resid_pdrop"] = 0.0;
  write_window(json, m);
  return json;
}

constexpr HuggingFaceInertKey phi3_keys[] = {
    {"attention_bias"},
    {"embd_pdrop"},
    {"layer_types", "[null]"},
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
