// The object of rotary parameters, in either spelling.
#include "interop/huggingface_rope.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

double yarn_scale(double factor, double mscale) {
  return 0.1 * mscale * std::log(factor) + 1;
}

// DeepSeek's two: tables are multiplied by the quotient of what they give, and in latent attention
// scores by the square of the second.
void read_mscales(const HuggingFaceReader& rope, ModelConfig& m) {
  const double factor = m.rope_scaling_factor;
  const double mscale = rope.number("mscale", "rope_attention_factor", 0);
  const double all = rope.number("mscale_all_dim", "rope_attention_factor", 0);
  if (m.rope_attention_factor == 0 && mscale > 0 && all > 0)
    m.rope_attention_factor = yarn_scale(factor, mscale) / yarn_scale(factor, all);
  if (all > 0) {
    const double squared = yarn_scale(factor, all) * yarn_scale(factor, all);
    m.attention_scale = squared / std::sqrt(static_cast<double>(m.head_dim));
  }
}

void read_yarn(const HuggingFaceReader& rope, ModelConfig& m) {
  rope.must_be("truncate", true);
  m.rope_beta_fast = rope.number("beta_fast", "rope_beta_fast", 32);
  m.rope_beta_slow = rope.number("beta_slow", "rope_beta_slow", 1);
  m.rope_attention_factor = rope.number("attention_factor", "rope_attention_factor", 0);
  m.rope_original_length = rope.size("original_max_position_embeddings", "rope_original_length");
  if (m.is_latent()) return read_mscales(rope, m);
  for (const char* key : {"mscale", "mscale_all_dim"})
    if (rope.has(key)) rope.refuse(key, "only attention_factor is supported");
}

void read_scaling(const HuggingFaceReader& rope, ModelConfig& m) {
  for (const auto& [key, value] : rope.json().items()) {
    if (value.is_object())
      rope.refuse(key.c_str(), "rotary parameters of some layers alone are not supported");
  }
  const char* key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text(key, "default");
  m.rope_base = rope.number("rope_theta", "rope_base", m.rope_base);
  if (type == "default") return;
  if (type != "linear" && type != "llama3" && type != "yarn") {
    rope.refuse(key, "supported are default, linear, llama3 and yarn");
  }
  rope.must_be("partial_rotary_factor", 1);
  m.rope_scaling_factor = rope.number("factor", "rope_scaling_factor");
  if (m.rope_scaling_factor == 1) return;
  m.rope_scaling = type;
  if (type == "linear") return;
  if (type == "yarn") return read_yarn(rope, m);
  m.rope_low_freq_factor = rope.number("low_freq_factor", "rope_low_freq_factor");
  m.rope_high_freq_factor = rope.number("high_freq_factor", "rope_high_freq_factor");
  m.rope_original_length = rope.size("original_max_position_embeddings", "rope_original_length");
}

}  // namespace

// transformers 5 has rope_parameters, earlier versions rope_theta and rope_scaling at top level. A
// partial_rotary_factor is not read: Llama models of transformers always rotate whole heads.
void read_rope(const HuggingFaceReader& json, ModelConfig& m, double base) {
  m.rope_base = json.number("rope_theta", "rope_base", base);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (json.has(key)) read_scaling(json.section(key), m);
  }
  if (m.rope_scaling == "none") return;
  json.must_be("partial_rotary_factor", 1);
  // transformers prefers this one to that of the object.
  if (m.rope_scaling != "linear")
    json.must_be("original_max_position_embeddings", m.rope_original_length);
}

}  // namespace trireme
