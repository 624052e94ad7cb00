// Ministral, with windows in some layers, and Ministral 3, with position-dependent query scaling.
#include <nlohmann/json.hpp>

#include "formats/huggingface/kinds/llama.h"
#include "formats/huggingface/rope.h"

namespace trireme {
namespace {

constexpr LlamaDefaults kMinistral{.kv_heads = 8, .positions = 131072};
constexpr LlamaDefaults kMinistral3{
    .kv_heads = 8, .head_dim = 128, .positions = 262144, .norm_eps = 1e-5, .reads_rope = false};

// Without layer_types, all layers have the window.
ModelConfig read_ministral(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kMinistral);
  if (json.has("layer_types")) {
    std::vector<std::int64_t> with = read_layer_types(json, m);
    if (with.empty())
      json.pass_over({"sliding_window"});
    else
      give_window(json, m, std::move(with));
    return m;
  }
  m.attention_window = 4096;
  read_window(json, m);
  return m;
}

HuggingFaceJson write_ministral(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  json["sliding_window"] = m.attention_window > 0 ? m.attention_window : 4096;
  write_layer_types(json, m);
  return json;
}

// Queries are scaled by 1 + llama_4_scaling_beta ln(1 + floor(position / original length)); the
// class reads both parameters from its RoPE parameters.
ModelConfig read_ministral3(const HuggingFaceReader& json) {
  ModelConfig m = read_llama_like(json, kMinistral3);
  read_window(json, m);
  const char* const key = has_parameters(json, "rope_scaling") ? "rope_scaling" : "rope_parameters";
  if (!json.has(key)) json.refuse(key, "it must have the rotary parameters of this kind of model");
  const HuggingFaceReader rope = json.section(key);
  rope.pass_over({"max_position_embeddings"});
  const double beta = rope.number("llama_4_scaling_beta", "rope_query_beta");
  const std::int64_t length = rope.size("original_max_position_embeddings", "rope_original_length");
  json.must_be("original_max_position_embeddings", length);
  read_rope(json, m, kMinistral3.rope_base);
  m.rope_query_beta = beta;
  if (beta > 0) m.rope_original_length = length;
  return m;
}

// The class exists only in transformers 5.
HuggingFaceJson write_ministral3(const ModelConfig& m) {
  HuggingFaceJson json = write_llama_like(m);
  HuggingFaceJson rope = write_full_rope(m);
  rope["rope_theta"] = m.rope_base;
  rope["original_max_position_embeddings"] = m.rope_original_length;
  rope["llama_4_scaling_beta"] = m.rope_query_beta;
  json.erase("rope_theta");
  json.erase("rope_scaling");
  json["rope_parameters"] = rope;
  write_window(json, m);
  return json;
}

}  // namespace

const HuggingFaceKind ministral_kind{"MinistralForCausalLM", "ministral",     &llama_names,
                                     read_ministral,         write_ministral, mistral_keys};
const HuggingFaceKind ministral3_kind{"Ministral3ForCausalLM", "ministral3",     &llama_names,
                                      read_ministral3,         write_ministral3, mistral_keys};

}  // namespace trireme
