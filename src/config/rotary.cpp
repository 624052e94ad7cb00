// Computes the width and the factor of RoPE.
#include "config/rotary.h"

#include <cmath>

#include "base/portable_math.h"

namespace trireme {

std::int64_t rotary_dimensions(const ModelConfig& m) {
  if (m.is_latent()) return m.qk_rope_head_dim;
  return static_cast<std::int64_t>(m.rope_percent * static_cast<double>(m.head_dim)) / 2 * 2;
}

double rotary_amplitude(const ModelConfig& m) {
  const bool by_length = m.rope_scaling == RopeScaling::longrope;
  if (m.rope_scaling != RopeScaling::yarn && !by_length) return 1;
  if (m.rope_attention_factor > 0) return m.rope_attention_factor;
  const double steps = math::log(m.rope_scaling_factor);
  if (!by_length) return 0.1 * steps + 1;
  return std::sqrt(1 + steps / math::log(static_cast<double>(m.rope_original_length)));
}

}  // namespace trireme
