// Gemma, Gemma 2 and the text model of Gemma 3: scaled embeddings, norms that multiply by 1 +
// weight, GELU gate. Gemma 2 has soft caps, norms before and after each block, and a sliding window
// in every second layer; Gemma 3 has QK norm instead of caps, and windows in five of six layers,
// with a smaller RoPE base.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/huggingface/kinds/llama.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kGemma{.kv_heads = 16,
                               .head_dim = 256,
                               .positions = 8192,
                               .activation = "gelu_pytorch_tanh",
                               .tie_embeddings = true};
constexpr LlamaDefaults kGemma2{.kv_heads = 4,
                                .head_dim = 256,
                                .positions = 8192,
                                .activation = "gelu_pytorch_tanh",
                                .tie_embeddings = true};

constexpr LlamaDefaults kGemma3{.kv_heads = 4,
                                .head_dim = 256,
                                .positions = 131072,
                                .activation = "gelu_pytorch_tanh",
                                .tie_embeddings = true,
                                .reads_rope = false};
constexpr LayerBases kGemma3Bases{1e6, 1e4, "rope_local_base_freq"};

void refuse_two_directions(const HuggingFaceReader& json) {
  const char* const key = "use_bidirectional_attention";
  if (json.has(key)) json.must_be(key, false);
}

// The first files say gelu but mean gelu_pytorch_tanh, which the code computes; hidden_activation
// took precedence in some versions of transformers.
ModelConfig read_gemma(const HuggingFaceReader& json) {
  LlamaDefaults defaults = kGemma;
  const bool gelu = json.text("hidden_act", kGemma.activation) == "gelu";
  if (gelu) defaults.activation = "gelu";
  ModelConfig m = read_llama_like(json, defaults);
  if (json.has("hidden_activation"))
    require_llama_activation(json, "hidden_activation", kGemma.activation);
  json.must_be("attention_bias", false);
  refuse_two_directions(json);
  refuse_window(json);
  m.activation = MlpActivation::geglu;
  m.zero_centered_norms = m.scale_embedding = true;
  return m;
}

// The width whose square root divides the scores; may be fractional, although newer versions of
// transformers accept only integers.
double score_width(const HuggingFaceReader& json) {
  const char* const key = "query_pre_attn_scalar";
  if (!json.has(key)) return 256;
  const double width = json[key].is_number() ? json[key].get<double>() : 0;
  if (width < 1) json.refuse(key, "it must be a number of at least 1");
  return width;
}

// A soft cap; null means none.
double read_cap(const HuggingFaceReader& json, const char* key, const char* ours, double absent) {
  return json.is_null(key) ? 0 : json.number(key, ours, absent);
}

// Settings shared by Gemma 2 and 3.
ModelConfig read_newer_gemma(const HuggingFaceReader& json, const LlamaDefaults& defaults) {
  ModelConfig m = read_llama_like(json, defaults);
  json.must_be("attention_bias", false);
  refuse_two_directions(json);
  require_llama_activation(json, "hidden_activation", defaults.activation);
  m.activation = MlpActivation::geglu;
  m.norm_placement = NormPlacement::both;
  m.zero_centered_norms = m.scale_embedding = true;
  const double width = score_width(json);
  if (width != static_cast<double>(m.head_dim)) m.attention_scale = 1 / std::sqrt(width);
  return m;
}

ModelConfig read_gemma2(const HuggingFaceReader& json) {
  ModelConfig m = read_newer_gemma(json, kGemma2);
  read_rounds_of_windows(json, m, 2);
  const char* const first_name = "sliding_window_size";
  if (m.attention_window > 0)
    json.must_be(first_name, m.attention_window);
  else
    json.pass_over({first_name});
  m.attention_soft_cap = read_cap(json, "attn_logit_softcapping", "attention_soft_cap", 50);
  m.logit_soft_cap = read_cap(json, "final_logit_softcapping", "logit_soft_cap", 30);
  return m;
}

// The class accepts a cap on attention scores but does not apply it.
ModelConfig read_gemma3(const HuggingFaceReader& json) {
  ModelConfig m = read_newer_gemma(json, kGemma3);
  read_rounds_of_windows(json, m, 6, "sliding_window_pattern");
  json.must_be_absent("attn_logit_softcapping",
                      "transformers does not apply it in this class, so it must be null");
  m.logit_soft_cap = read_cap(json, "final_logit_softcapping", "logit_soft_cap", 0);
  m.qk_norm = m.zero_centered_qk_norms = true;
  read_rope_by_layer(json, m, kGemma3Bases);
  return m;
}

HuggingFaceJson write_gemma(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["hidden_act"] = json["hidden_activation"] = kGemma.activation;
  json["attention_bias"] = false;
  return json;
}

HuggingFaceJson write_cap(double value) {
  return value > 0 ? HuggingFaceJson(value) : HuggingFaceJson(nullptr);
}

// transformers requires an integer for the width that scales the scores. Without a window, no layer
// has a window type, and the window's size has no effect.
HuggingFaceJson write_newer_gemma(const ModelConfig& m) {
  HuggingFaceJson json = write_gemma(m);
  const double width = m.attention_scale > 0 ? 1 / (m.attention_scale * m.attention_scale)
                                             : static_cast<double>(m.head_dim);
  json["query_pre_attn_scalar"] = std::llround(std::clamp(width, 1.0, 1e15));
  json["final_logit_softcapping"] = write_cap(m.logit_soft_cap);
  json["sliding_window"] = m.attention_window > 0 ? m.attention_window : 4096;
  write_layer_types(json, m);
  return json;
}

HuggingFaceJson write_gemma2(const ModelConfig& m) {
  HuggingFaceJson json = write_newer_gemma(m);
  json["attn_logit_softcapping"] = write_cap(m.attention_soft_cap);
  return json;
}

HuggingFaceJson write_gemma3(const ModelConfig& m) {
  HuggingFaceJson json = write_newer_gemma(m);
  json["rope_scaling"] = write_full_rope(m);
  json["rope_local_base_freq"] = m.rope_base_local > 0 ? m.rope_base_local : m.rope_base;
  return json;
}

constexpr HuggingFaceInertKey gemma3_keys[] = {
    {"_sliding_window_pattern"},  // duplicate of layer_types
    {"mlp_bias"},
};

}  // namespace

const HuggingFaceKind gemma_kind{"GemmaForCausalLM", "gemma",     &llama_names,
                                 read_gemma,         write_gemma, olmo2_keys};
const HuggingFaceKind gemma2_kind{"Gemma2ForCausalLM", "gemma2",     &llama_names,
                                  read_gemma2,         write_gemma2, qwen3_keys};
const HuggingFaceKind gemma3_kind{"Gemma3ForCausalLM", "gemma3_text", &llama_names,
                                  read_gemma3,         write_gemma3,  gemma3_keys};

}  // namespace trireme
