// Computes the frequency of each pair.
#include "model/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/portable_math.h"
#include "config/rotary.h"

namespace trireme {
namespace {

// The (fractional) pair index with this number of turns within the original length.
double pair_of_turns(const ModelConfig& m, double turns) {
  const double length = static_cast<double>(m.rope_original_length);
  return static_cast<double>(rotary_dimensions(m)) *
         math::log(length / (turns * 2 * std::numbers::pi)) / (2 * math::log(m.rope_base));
}

// Share of pair i's original frequency that YaRN keeps, from 1 to 0.
double kept_by_yarn(const ModelConfig& m, std::size_t i) {
  const double last = static_cast<double>(rotary_dimensions(m) - 1);
  double low = pair_of_turns(m, m.rope_beta_fast), high = pair_of_turns(m, m.rope_beta_slow);
  if (m.rope_truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, last);
  const double width = high == low ? 0.001 : high - low;
  return 1 - std::clamp((static_cast<double>(i) - low) / width, 0.0, 1.0);
}

// Share of the original frequency that Llama 3's scaling keeps, from 1 (at least the high factor of
// turns within the original length) to 0 (at most the low factor).
double kept_by_llama3(const ModelConfig& m, double frequency) {
  const double turns =
      static_cast<double>(m.rope_original_length) * frequency / (2 * std::numbers::pi);
  const double low = m.rope_low_freq_factor, high = m.rope_high_freq_factor;
  if (turns >= high) return 1;
  return turns <= low ? 0 : (turns - low) / (high - low);
}

bool is_long(const ModelConfig& m, std::int64_t length) {
  return m.rope_scaling == RopeScaling::longrope && length > m.rope_original_length;
}

// Factor on the frequency of pair i.
double scale(const ModelConfig& m, double frequency, std::size_t i, std::int64_t length) {
  const double divided = 1 / m.rope_scaling_factor;
  switch (m.rope_scaling) {
    case RopeScaling::none:
    case RopeScaling::dynamic:  // no sequence is longer than max_positions
      return 1;
    case RopeScaling::linear:
      return divided;
    case RopeScaling::llama3:
      return divided + kept_by_llama3(m, frequency) * (1 - divided);
    case RopeScaling::yarn:
      return divided + kept_by_yarn(m, i) * (1 - divided);
    case RopeScaling::longrope:
      return 1 / (is_long(m, length) ? m.rope_long_factors : m.rope_short_factors)[i];
  }
  fail("internal error: no scale for {}", m.rope_scaling);
}

}  // namespace

std::vector<double> rotary_frequencies(const ModelConfig& model, std::int64_t length) {
  std::vector<double> frequencies(static_cast<std::size_t>(rotary_dimensions(model) / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(frequencies.size());
    const double frequency = math::pow(model.rope_base, -share);
    frequencies[i] = frequency * scale(model, frequency, i, length);
  }
  return frequencies;
}

std::int64_t rotary_rows(const ModelConfig& model) {
  return model.rope_scaling == RopeScaling::longrope ? 2 : 1;
}

std::int64_t rotary_row(const ModelConfig& model, std::int64_t position, std::int64_t length) {
  return rotary_rows(model) * position + (is_long(model, length) ? 1 : 0);
}

ModelConfig with_local_rotation(ModelConfig model) {
  model.rope_base = model.rope_base_local;
  model.rope_scaling = RopeScaling::none;
  return model;
}

double query_factor(const ModelConfig& model, std::int64_t position) {
  const auto rounds = static_cast<double>(position / model.rope_original_length);
  return 1 + model.rope_query_beta * math::log1p(rounds);
}

double no_rope_query_factor(const ModelConfig& model, std::int64_t position) {
  const auto rounds = static_cast<double>((position + 1) / model.no_rope_query_length);
  return 1 + model.no_rope_query_beta * math::log1p(rounds);
}

}  // namespace trireme
