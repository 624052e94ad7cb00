// Gemma and Gemma 2: a scaled embedding, norms that multiply by 1 + weight, GELU in the gate; the
// second has caps, norms before and after, and windows in every second layer.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/huggingface/llama.h"

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

void refuse_two_directions(const HuggingFaceReader& json) {
  const char* const key = "use_bidirectional_attention";
  if (json.has(key)) json.must_be(key, false);
}

// Its first files say gelu and mean what its code computes, gelu_pytorch_tanh; a
// hidden_activation decided in some versions of transformers.
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

// Every second layer from the first on has the window where no layer_types say otherwise.
void read_gemma_window(const HuggingFaceReader& json, ModelConfig& m) {
  std::vector<std::int64_t> with;
  if (json.has("layer_types")) {
    with = read_layer_types(json, m);
  } else {
    for (std::int64_t layer = 0; layer < m.num_layers; layer += 2) with.push_back(layer);
  }
  if (with.empty()) return json.pass_over({"sliding_window", "sliding_window_size"});
  give_window(json, m, std::move(with));
  json.must_be("sliding_window_size", m.attention_window);  // of its first files
}

// What scores are divided by the root of: a fraction too, though newer versions of transformers
// know whole numbers alone.
double score_width(const HuggingFaceReader& json) {
  const char* const key = "query_pre_attn_scalar";
  if (!json.has(key)) return 256;
  const double width = json[key].is_number() ? json[key].get<double>() : 0;
  if (width < 1) json.refuse(key, "it must be a number of at least 1");
  return width;
}

ModelConfig read_gemma2(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kGemma2);
  json.must_be("attention_bias", false);
  refuse_two_directions(json);
  require_llama_activation(json, "hidden_activation", kGemma2.activation);
  read_gemma_window(json, m);
  m.activation = MlpActivation::geglu;
  m.norm_placement = NormPlacement::both;
  m.zero_centered_norms = m.scale_embedding = true;
  const auto cap = [&](const char* key, const char* ours, double absent) {
    return json.is_null(key) ? 0 : json.number(key, ours, absent);
  };
  m.attention_soft_cap = cap("attn_logit_softcapping", "attention_soft_cap", 50);
  m.logit_soft_cap = cap("final_logit_softcapping", "logit_soft_cap", 30);
  const double width = score_width(json);
  if (width != static_cast<double>(m.head_dim)) m.attention_scale = 1 / std::sqrt(width);
  return m;
}

HuggingFaceJson write_gemma(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["hidden_act"] = json["hidden_activation"] = kGemma.activation;
  json["attention_bias"] = false;
  return json;
}

// transformers takes no fraction for what scores are divided by the root of. Without a window no
// layer has its type, and its number does nothing.
HuggingFaceJson write_gemma2(const ModelConfig& m) {
  const auto cap = [](double value) {
    return value > 0 ? HuggingFaceJson(value) : HuggingFaceJson(nullptr);
  };
  HuggingFaceJson json = write_gemma(m);
  const double width = m.attention_scale > 0 ? 1 / (m.attention_scale * m.attention_scale)
                                             : static_cast<double>(m.head_dim);
  json["query_pre_attn_scalar"] = std::llround(std::clamp(width, 1.0, 1e15));
  json["attn_logit_softcapping"] = cap(m.attention_soft_cap);
  json["final_logit_softcapping"] = cap(m.logit_soft_cap);
  json["sliding_window"] = m.attention_window > 0 ? m.attention_window : 4096;
  write_layer_types(json, m);
  return json;
}

}  // namespace

const HuggingFaceKind gemma_kind{"GemmaForCausalLM", "gemma",     &llama_names,
                                 read_gemma,         write_gemma, olmo2_keys};
const HuggingFaceKind gemma2_kind{"Gemma2ForCausalLM", "gemma2",     &llama_names,
                                  read_gemma2,         write_gemma2, qwen3_keys};

}  // namespace trireme
