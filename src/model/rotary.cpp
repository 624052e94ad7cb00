// Frequencies pair by pair.
#include "model/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/builder.h"

namespace trireme {
namespace {

// What a frequency is multiplied by.
double scale(const ModelConfig& m, double frequency) {
  const double divided = 1 / m.rope_scaling_factor;
  if (m.rope_scaling == "linear") return divided;
  if (m.rope_scaling != "llama3") return 1;
  // Turns within the original length: below the low factor divided, above the high one kept.
  const double turns =
      static_cast<double>(m.rope_original_length) * frequency / (2 * std::numbers::pi);
  const double kept = std::clamp(
      (turns - m.rope_low_freq_factor) / (m.rope_high_freq_factor - m.rope_low_freq_factor), 0.0,
      1.0);
  return divided + kept * (1 - divided);
}

}  // namespace

std::vector<double> rotary_frequencies(const ModelConfig& model) {
  std::vector<double> frequencies(static_cast<std::size_t>(rotary_dimensions(model) / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(frequencies.size());
    const double frequency = std::pow(model.rope_base, -share);
    frequencies[i] = frequency * scale(model, frequency);
  }
  return frequencies;
}

}  // namespace trireme
