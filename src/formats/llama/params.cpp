// The keys that Meta's files have. Not every program takes all: that of Llama 2 stops at
// rope_theta, without which that of Llama 3 would take another base.
#include "formats/llama/params.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/llama/writer.h"

namespace trireme {
namespace {

template <class Value>
void require_meta(bool good, const char* key, const Value& value) {
  if (!good) {
    fail_input("cannot write a folder of Meta's Llama: its models have no counterpart for {} = {}",
               key, value);
  }
}

struct InnerWidth {
  std::int64_t multiple_of = 1;
  std::optional<double> multiplier;
};

// The multiplier with the fewest decimals that gives the width with a given multiple.
std::optional<double> find_multiplier(const ModelConfig& m, std::int64_t multiple_of,
                                      int decimals) {
  const double scale = std::pow(10.0, decimals);
  const double wanted = static_cast<double>(m.ffn_hidden_size) /
                        static_cast<double>(llama_inner_width(m.hidden_size, 1, {}));
  for (const double tenths : {std::floor(wanted * scale), std::ceil(wanted * scale)}) {
    const double multiplier = tenths / scale;
    const bool fits =
        llama_inner_width(m.hidden_size, multiple_of, multiplier) == m.ffn_hidden_size;
    if (tenths > 0 && fits) return multiplier;
  }
  return std::nullopt;
}

InnerWidth find_inner_width(const ModelConfig& m) {
  constexpr std::int64_t widest = 4096;
  if (llama_inner_width(m.hidden_size, 256, {}) == m.ffn_hidden_size) return {256, {}};
  for (std::int64_t multiple = widest; multiple > 0; multiple /= 2)
    if (llama_inner_width(m.hidden_size, multiple, {}) == m.ffn_hidden_size) return {multiple, {}};
  for (int decimals = 1; decimals <= 9; ++decimals) {
    for (std::int64_t multiple = widest; multiple > 0; multiple /= 2)
      if (const auto multiplier = find_multiplier(m, multiple, decimals))
        return {multiple, multiplier};
  }
  fail_input(
      "cannot write a folder of Meta's Llama: params.json computes the inner width from the hidden "
      "size, and no key of it makes model.ffn_hidden_size = {} of {}",
      m.ffn_hidden_size, m.hidden_size);
}

}  // namespace

void require_llama_of_meta(const ModelConfig& m) {
  require_meta(m.position == PositionEncoding::rope, "model.position", m.position);
  require_meta(m.norm == NormType::rms_norm, "model.norm", m.norm);
  require_meta(m.norm_placement == NormPlacement::pre, "model.norm_placement", m.norm_placement);
  require_meta(m.activation == MlpActivation::swiglu, "model.activation", m.activation);
  require_meta(m.moe.num_experts == 0, "moe.num_experts", m.moe.num_experts);
  require_meta(!m.qk_norm, "model.qk_norm", m.qk_norm);
  require_meta(!m.is_latent(), "model.kv_lora_rank", m.kv_lora_rank);
  require_meta(m.attention_scale == 0, "model.attention_scale", m.attention_scale);
  require_meta(m.attention_soft_cap == 0, "model.attention_soft_cap", m.attention_soft_cap);
  require_meta(m.logit_soft_cap == 0, "model.logit_soft_cap", m.logit_soft_cap);
  require_meta(!m.zero_centred_norms, "model.zero_centred_norms", m.zero_centred_norms);
  require_meta(!m.embedding_norm, "model.embedding_norm", m.embedding_norm);
  require_meta(!m.scale_embedding, "model.scale_embedding", m.scale_embedding);
  require_meta(m.rope_percent == 1, "model.rope_percent", m.rope_percent);
  require_meta(m.attention_window == 0, "model.attention_window", m.attention_window);
  require_meta(!m.bias, "model.bias", m.bias);
  require_meta(!m.qkv_bias, "model.qkv_bias", m.qkv_bias);
  require_meta(m.head_dim * m.num_heads == m.hidden_size, "model.head_dim", m.head_dim);
  const bool scaled = m.rope_scaling == RopeScaling::llama3;
  require_meta(scaled || m.rope_scaling == RopeScaling::none, "model.rope_scaling", m.rope_scaling);
  if (!scaled) return;
  // A constant of Meta's programs, and so is the factor, of which a note tells.
  require_meta(m.rope_high_freq_factor == 4, "model.rope_high_freq_factor",
               m.rope_high_freq_factor);
  require_meta(m.rope_low_freq_factor == 1, "model.rope_low_freq_factor", m.rope_low_freq_factor);
  require_meta(m.rope_original_length == 8192, "model.rope_original_length",
               m.rope_original_length);
}

std::string llama_file_name(std::size_t rank) {
  return fmt::format("consolidated.{:02d}.pth", rank);
}

std::int64_t llama_inner_width(std::int64_t hidden_size, std::int64_t multiple_of,
                               std::optional<double> multiplier) {
  std::int64_t width = 2 * (4 * hidden_size) / 3;
  if (multiplier) width = static_cast<std::int64_t>(*multiplier * static_cast<double>(width));
  return (width + multiple_of - 1) / multiple_of * multiple_of;
}

std::int64_t likely_llama_positions(bool scaled, double rope_base) {
  if (scaled) return 131072;
  if (rope_base >= 1e6) return 16384;
  return rope_base > 1e4 ? 8192 : 4096;
}

double likely_llama_scaling(bool tied) {
  // Of the published models with scaled positions, those that tie their embeddings have 32.
  return tied ? 32 : 8;
}

std::string llama_params(const ModelConfig& m) {
  require_llama_of_meta(m);
  const InnerWidth width = find_inner_width(m);
  nlohmann::ordered_json params{{"dim", m.hidden_size},       {"n_layers", m.num_layers},
                                {"n_heads", m.num_heads},     {"n_kv_heads", m.num_kv_heads},
                                {"vocab_size", m.vocab_size}, {"multiple_of", width.multiple_of},
                                {"norm_eps", m.norm_eps},     {"rope_theta", m.rope_base}};
  if (width.multiplier) params["ffn_dim_multiplier"] = *width.multiplier;
  if (m.rope_scaling == RopeScaling::llama3) {
    params["use_scaled_rope"] = true;
    if (m.rope_scaling_factor != 8 || m.tie_embeddings)
      params["rope_scaling_factor"] = m.rope_scaling_factor;
  }
  return params.dump(2) + "\n";
}

}  // namespace trireme
