// Granite: Llama with constant factors on embeddings, residual branches, scores and logits.
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/huggingface/kinds/llama.h"

namespace trireme {

void read_granite_factors(const HuggingFaceReader& json, ModelConfig& m) {
  m.embedding_multiplier = json.number("embedding_multiplier", "embedding_multiplier", 1);
  m.residual_multiplier = json.number("residual_multiplier", "residual_multiplier", 1);
  m.attention_scale = json.number("attention_multiplier", "attention_scale", 1);
  if (m.attention_scale == 0) json.refuse("attention_multiplier", "it must be above 0");
  m.logit_multiplier = 1 / json.number("logits_scaling", "logit_multiplier", 1);
}

void write_granite_factors(HuggingFaceJson& json, const ModelConfig& m) {
  json["embedding_multiplier"] = m.embedding_multiplier;
  json["residual_multiplier"] = m.residual_multiplier;
  json["attention_multiplier"] =
      m.attention_scale > 0 ? m.attention_scale : 1 / std::sqrt(static_cast<double>(m.head_dim));
  json["logits_scaling"] = 1 / m.logit_multiplier;
}

namespace {

ModelConfig read_granite(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, {});
  read_biases(json, m);
  refuse_window(json);
  read_granite_factors(json, m);
  return m;
}

HuggingFaceJson write_granite(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  write_biases(json, m);
  write_granite_factors(json, m);
  return json;
}

}  // namespace

const HuggingFaceKind granite_kind{"GraniteForCausalLM", "granite",     &llama_names,
                                   read_granite,         write_granite, olmo2_keys};

}  // namespace trireme
