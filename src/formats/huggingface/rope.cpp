// Reads RoPE parameters in either spelling, and writes them.
#include "formats/huggingface/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "config/rotary.h"

namespace trireme {
namespace {

double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

// A number for which absent, null and 0 all mean `otherwise`.
double number_or(const HuggingFaceReader& rope, const char* key, const char* ours,
                 double otherwise) {
  if (!rope.has(key) || rope[key] == 0) return otherwise;
  return rope.number(key, ours);
}

// Factor on the RoPE tables and, in latent attention, also on the scores.
void read_amplitude(const HuggingFaceReader& rope, ModelConfig& m) {
  const char* const ours = "rope_attention_factor";
  const double factor = m.rope_scaling_factor;
  const double mscale = number_or(rope, "mscale", ours, 0);
  const double all = number_or(rope, "mscale_all_dim", ours, 0);
  if (rope.has("attention_factor")) {
    m.rope_attention_factor = rope.number("attention_factor", ours);
    if (m.rope_attention_factor == 0) rope.refuse("attention_factor", "it must be above 0");
  } else if (mscale > 0 && all > 0) {
    m.rope_attention_factor = yarn_scale(factor, mscale) / yarn_scale(factor, all);
  }
  if (!m.is_latent() || all == 0 || factor == 1) return;
  const double squared = yarn_scale(factor, all) * yarn_scale(factor, all);
  m.attention_scale = squared / std::sqrt(static_cast<double>(m.head_dim));
}

// Context length of the original training: a top-level key overrides the RoPE object's key; without
// either, the current maximum length.
std::int64_t original_length(const HuggingFaceReader& json, const HuggingFaceReader& rope,
                             const ModelConfig& m) {
  const char* const key = "original_max_position_embeddings";
  const auto own = rope.size(key, "rope_original_length", m.max_positions);
  return json.size(key, "rope_original_length", own);
}

void read_yarn(const HuggingFaceReader& rope, ModelConfig& m) {
  m.rope_truncate = !rope.is_null("truncate") && rope.flag("truncate", true);
  if (rope.is_null("factor")) {
    m.rope_scaling_factor =
        static_cast<double>(m.max_positions) / static_cast<double>(m.rope_original_length);
    if (m.is_latent() && rope.has("mscale_all_dim"))
      rope.refuse("factor", "with mscale_all_dim it must be a number");
    if (m.rope_scaling_factor < 1) {
      rope.refuse("factor", fmt::format("max_position_embeddings ({}) replaces it, but is below "
                                        "original_max_position_embeddings ({})",
                                        m.max_positions, m.rope_original_length));
    }
  }
  m.rope_beta_fast = number_or(rope, "beta_fast", "rope_beta_fast", 32);
  m.rope_beta_slow = number_or(rope, "beta_slow", "rope_beta_slow", 1);
  read_amplitude(rope, m);
  // With a scaling factor of 1, only the factor on the tables has an effect.
  if (m.rope_scaling_factor == 1 && m.rope_attention_factor == 1) m.rope_attention_factor = 0;
}

// The divisors of all frequencies.
std::vector<double> read_factors(const HuggingFaceReader& rope, const char* key, const char* ours,
                                 const ModelConfig& m) {
  const auto pairs = static_cast<std::size_t>(rotary_dimensions(m) / 2);
  if (!rope.has(key)) rope.refuse(key, "rope_type longrope requires it");
  const auto& list = rope[key];
  if (!list.is_array() || list.size() != pairs)
    rope.refuse(key,
                fmt::format("it must have a number for each of the {} rotary frequencies", pairs));
  std::vector<double> factors;
  for (const auto& factor : list) {
    if (!factor.is_number() || factor <= 0)
      rope.refuse(key, fmt::format("model.{} are numbers above 0", ours));
    factors.push_back(factor.get<double>());
  }
  return factors;
}

void read_longrope(const HuggingFaceReader& rope, ModelConfig& m) {
  ModelConfig sized = m;  // with the default width of heads
  if (sized.head_dim == 0) sized.head_dim = m.hidden_size / m.num_heads;
  m.rope_short_factors = read_factors(rope, "short_factor", "rope_short_factors", sized);
  m.rope_long_factors = read_factors(rope, "long_factor", "rope_long_factors", sized);
  m.rope_scaling_factor = rope.has("factor")
                              ? rope.number("factor", "rope_scaling_factor")
                              : std::max(1.0, static_cast<double>(m.max_positions) /
                                                  static_cast<double>(m.rope_original_length));
  if (!rope.has("attention_factor")) return;
  m.rope_attention_factor = rope.number("attention_factor", "rope_attention_factor");
  if (m.rope_attention_factor == 0) rope.refuse("attention_factor", "it must be above 0");
}

RopeScaling rope_type(const HuggingFaceReader& rope) {
  const char* const key = rope.either("rope_type", "type");
  const std::string type = rope.text(key, "default");
  if (type == "default") return RopeScaling::none;
  const auto scaling = find_choice<RopeScaling>(type);
  if (!scaling || *scaling == RopeScaling::none)
    rope.refuse(key, "supported are default, linear, llama3, yarn, longrope and dynamic");
  return *scaling;
}

// Rotary fraction of each head, for kinds that support it: from the object, the top level, or the
// default in m. Other kinds always rotate whole heads.
void read_share(const HuggingFaceReader& json, const HuggingFaceReader& rope, RotaryShare share,
                ModelConfig& m) {
  const char* const key = "partial_rotary_factor";
  if (share == RotaryShare::whole) return;
  if (json.is_null(key)) m.rope_percent = 1;  // transformers then uses 1 instead of its default
  if (json.has(key)) m.rope_percent = json.number(key, "rope_percent");
  if (!rope.has(key)) return;
  const double own = rope.number(key, "rope_percent");
  if (json.has(key) && own != m.rope_percent)
    json.refuse(key, fmt::format("the rotary parameters have {}: keep one of the two", own));
  m.rope_percent = own;
}

void read_scaling(const HuggingFaceReader& json, const HuggingFaceReader& rope, RotaryShare share,
                  ModelConfig& m) {
  for (const auto& [key, value] : rope.json().items()) {
    if (value.is_object())
      rope.refuse(key.c_str(), "rotary parameters for only some layers are not supported");
  }
  const RopeScaling type = rope_type(rope);
  m.rope_base = rope.number("rope_theta", "rope_base", m.rope_base);
  read_share(json, rope, share, m);
  if (type == RopeScaling::none) {
    rope.pass_over({"partial_rotary_factor"});
    return rope.refuse_unread("rope_type default");
  }
  for (const HuggingFaceReader& place : {json, rope})
    if (share == RotaryShare::whole && place.has("partial_rotary_factor"))
      place.must_be("partial_rotary_factor", 1);
  m.rope_scaling = type;
  const bool longrope = type == RopeScaling::longrope;
  if (type != RopeScaling::linear && type != RopeScaling::dynamic)
    m.rope_original_length = original_length(json, rope, m);
  if (!longrope && (type != RopeScaling::yarn || !rope.is_null("factor")))
    m.rope_scaling_factor = rope.number("factor", "rope_scaling_factor");
  if (longrope) read_longrope(rope, m);
  if (type == RopeScaling::yarn) read_yarn(rope, m);
  if (type == RopeScaling::llama3) {
    m.rope_low_freq_factor = rope.number("low_freq_factor", "rope_low_freq_factor");
    m.rope_high_freq_factor = rope.number("high_freq_factor", "rope_high_freq_factor");
  }
  rope.refuse_unread(fmt::format("rope_type {}", type));
}

// Scaling by 1 has no effect, unless it depends on the length of a sequence.
void drop_what_does_nothing(ModelConfig& m) {
  if (m.rope_scaling_factor != 1 || m.rope_attention_factor != 0) return;
  if (m.rope_scaling == RopeScaling::longrope || m.rope_scaling == RopeScaling::dynamic) return;
  const ModelConfig plain;
  m.rope_scaling = plain.rope_scaling;
  m.rope_low_freq_factor = plain.rope_low_freq_factor;
  m.rope_high_freq_factor = plain.rope_high_freq_factor;
  m.rope_beta_fast = plain.rope_beta_fast;
  m.rope_beta_slow = plain.rope_beta_slow;
  m.rope_truncate = plain.rope_truncate;
  m.rope_original_length = plain.rope_original_length;
}

ModelConfig with_rope(const HuggingFaceReader& json, const char* key, RotaryShare share,
                      const ModelConfig& model) {
  ModelConfig m = model;
  read_scaling(json, json.section(key), share, m);
  drop_what_does_nothing(m);
  return m;
}

auto rotation_of(const ModelConfig& m) {
  return std::tuple(m.rope_base, m.rope_percent, m.rope_scaling, m.rope_scaling_factor,
                    m.rope_low_freq_factor, m.rope_high_freq_factor, m.rope_beta_fast,
                    m.rope_beta_slow, m.rope_attention_factor, m.rope_truncate,
                    m.rope_original_length, m.rope_short_factors, m.rope_long_factors,
                    m.attention_scale);
}

// If both exist, transformers uses only rope_scaling, with the top-level base: the user who added
// it to a file with rope_parameters may have meant to keep the latter's base.
ModelConfig with_both(const HuggingFaceReader& json, RotaryShare share, const ModelConfig& model) {
  const ModelConfig scaled = with_rope(json, "rope_scaling", share, model);
  const ModelConfig other = with_rope(json, "rope_parameters", share, model);
  const bool agree =
      rotation_of(scaled) == rotation_of(other) ||
      (other.rope_scaling == RopeScaling::none && other.rope_base == scaled.rope_base);
  if (agree) return scaled;
  json.refuse(
      "rope_scaling",
      fmt::format("it differs from rope_parameters, and transformers uses only it, with rope_theta "
                  "= {}: keep one of the two",
                  scaled.rope_base));
}

void note_partial_rotation(const HuggingFaceReader& json) {
  const auto is_part = [](const HuggingFaceReader& place) {
    const char* const key = "partial_rotary_factor";
    return place.has(key) && place[key] != 1;
  };
  bool part = is_part(json);
  for (const char* key : {"rope_scaling", "rope_parameters"})
    part = part || (has_parameters(json, key) && is_part(json.section(key)));
  if (part)
    json.note(
        "config.json: partial_rotary_factor has no effect in this kind of model, as in "
        "transformers");
}

// RoPE of full and sliding-window layers in transformers 5, each with its own object.
void read_nested(const HuggingFaceReader& types, ModelConfig& full, ModelConfig& local) {
  for (const auto& [key, value] : types.json().items()) {
    if (!value.is_object() && !value.is_null()) {
      types.refuse(key.c_str(),
                   "this kind of model has rotary parameters per layer type: put them into "
                   "full_attention and sliding_attention");
    }
  }
  for (const auto& [key, to] : {std::pair{"full_attention", &full}, {"sliding_attention", &local}})
    if (types.has(key)) *to = with_rope(types, key, RotaryShare::whole, *to);
  types.refuse_unread("rope_parameters");
}

}  // namespace

bool has_parameters(const HuggingFaceReader& json, const char* key) {
  return json.has(key) && json[key] != HuggingFaceReader::Json::object();
}

// Uses a spelling that every version of transformers reads: versions before 4.43 require exactly
// "type" and "factor", and do not support llama3.
HuggingFaceJson write_rope_scaling(const ModelConfig& m) {
  if (m.rope_scaling == RopeScaling::none) return nullptr;
  if (m.rope_scaling == RopeScaling::linear || m.rope_scaling == RopeScaling::dynamic) {
    return {{"type", name_of(m.rope_scaling)}, {"factor", m.rope_scaling_factor}};
  }
  if (m.rope_scaling == RopeScaling::longrope) {
    HuggingFaceJson longrope = {{"type", "longrope"},
                                {"short_factor", m.rope_short_factors},
                                {"long_factor", m.rope_long_factors},
                                {"factor", m.rope_scaling_factor},
                                {"original_max_position_embeddings", m.rope_original_length}};
    if (m.rope_attention_factor > 0) longrope["attention_factor"] = m.rope_attention_factor;
    return longrope;
  }
  if (m.rope_scaling == RopeScaling::yarn) {
    HuggingFaceJson yarn = {{"rope_type", "yarn"},
                            {"factor", m.rope_scaling_factor},
                            {"beta_fast", m.rope_beta_fast},
                            {"beta_slow", m.rope_beta_slow},
                            {"original_max_position_embeddings", m.rope_original_length}};
    if (m.rope_attention_factor > 0) yarn["attention_factor"] = m.rope_attention_factor;
    if (!m.rope_truncate) yarn["truncate"] = false;
    return yarn;
  }
  return {{"rope_type", name_of(m.rope_scaling)},
          {"factor", m.rope_scaling_factor},
          {"low_freq_factor", m.rope_low_freq_factor},
          {"high_freq_factor", m.rope_high_freq_factor},
          {"original_max_position_embeddings", m.rope_original_length}};
}

// transformers 5 uses rope_parameters, earlier versions top-level rope_theta and rope_scaling.
void read_rope(const HuggingFaceReader& json, ModelConfig& m, double base, RotaryShare share) {
  m.rope_base = json.number("rope_theta", "rope_base", base);
  const bool scaling = has_parameters(json, "rope_scaling");
  const bool parameters = has_parameters(json, "rope_parameters");
  if (scaling && parameters)
    m = with_both(json, share, m);
  else if (scaling || parameters)
    m = with_rope(json, scaling ? "rope_scaling" : "rope_parameters", share, m);
  else
    read_share(json, json, share, m);
  if (share == RotaryShare::whole) note_partial_rotation(json);
  // Top-level lengths only matter with RoPE scaling.
  json.pass_over({"original_max_position_embeddings"});
}

void read_rope_by_layer(const HuggingFaceReader& json, ModelConfig& m, const LayerBases& bases) {
  ModelConfig full = m, local = m;
  full.rope_base = json.number("rope_theta", "rope_base", bases.full);
  local.rope_base =
      bases.local_key ? json.number(bases.local_key, "rope_base", bases.local) : bases.local;
  const bool nested = has_parameters(json, "rope_parameters");
  if (nested) {
    json.must_be_absent("rope_scaling",
                        "rope_parameters already sets the scaling of positions: keep only that");
    read_nested(json.section("rope_parameters"), full, local);
  } else if (has_parameters(json, "rope_scaling")) {
    json.must_be_absent("original_max_position_embeddings",
                        "only that of rope_scaling is used: remove it here");
    if (!json.section("rope_scaling").has("rope_type"))
      json.refuse("rope_scaling", "transformers 5 reads the type only from rope_type: use that");
    full = with_rope(json, "rope_scaling", RotaryShare::whole, full);
  }
  if (!nested && !bases.local_key && m.attention_window > 0 && full.rope_base != bases.full) {
    json.refuse(
        "rope_theta",
        fmt::format("transformers 4 uses it in all layers, and transformers 5 uses {} in layers "
                    "with sliding-window attention: set both bases in rope_parameters",
                    bases.local));
  }
  if (m.attention_window == 0) {
    m = full;
  } else if (m.window_layers.empty()) {
    m = local;
  } else if (rotation_of(full) == rotation_of(local)) {
    m = full;
  } else if (local.rope_scaling != RopeScaling::none) {
    json.refuse("rope_parameters",
                "scaled positions that differ between layers with and without sliding-window "
                "attention are not supported");
  } else {
    m = full;
    m.rope_base_local = local.rope_base;
  }
}

HuggingFaceJson write_full_rope(const ModelConfig& m) {
  HuggingFaceJson full = write_rope_scaling(m);
  full["rope_type"] = m.rope_scaling == RopeScaling::none ? "default" : name_of(m.rope_scaling);
  full.erase("type");
  return full;
}

HuggingFaceJson write_rope_by_layer(const ModelConfig& m) {
  HuggingFaceJson full = write_full_rope(m);
  full["rope_theta"] = m.rope_base;
  const double local = m.rope_base_local > 0 ? m.rope_base_local : m.rope_base;
  return {{"full_attention", full},
          {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
}

}  // namespace trireme
