// Bounded integers, fractions and choices of numpy's RandomState.
#include "data/numpy_random.h"

#include <bit>
#include <vector>

namespace trireme {
namespace {

// A word of the next state from one of this state, its successor, and the word 397 further on.
std::uint32_t twist(std::uint32_t word, std::uint32_t next, std::uint32_t further) {
  const std::uint32_t joined = (word & 0x80000000u) | (next & 0x7fffffffu);
  return further ^ joined >> 1 ^ (-(next & 1) & 0x9908b0dfu);
}

std::uint32_t temper(std::uint32_t word) {
  word ^= word >> 11;
  word ^= word << 7 & 0x9d2c5680u;
  word ^= word << 15 & 0xefc60000u;
  return word ^ word >> 18;
}

}  // namespace

MersenneTwister::MersenneTwister(std::uint32_t seed) {
  state_[0] = seed;
  for (std::uint32_t i = 1; i < size; ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ state_[i - 1] >> 30) + i;
  }
}

void MersenneTwister::refill() {
  constexpr std::size_t shift = 397;
  for (std::size_t i = 0; i < size - shift; ++i) {
    state_[i] = twist(state_[i], state_[i + 1], state_[i + shift]);
  }
  for (std::size_t i = size - shift; i < size - 1; ++i) {
    state_[i] = twist(state_[i], state_[i + 1], state_[i + shift - size]);
  }
  state_[size - 1] = twist(state_[size - 1], state_[0], state_[shift - 1]);
  for (std::size_t i = 0; i < size; ++i) words_[i] = temper(state_[i]);
  used_ = 0;
}

std::uint64_t NumpyRandom::interval(std::uint64_t max) {
  if (max == 0) return 0;
  const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(max);
  std::uint64_t value;
  do {
    if (max <= 0xffffffff) {
      value = next32() & mask;
    } else {
      const std::uint64_t high = next32();
      value = (high << 32 | next32()) & mask;
    }
  } while (value > max);
  return value;
}

void NumpyRandom::falling_intervals(std::uint64_t max, std::span<std::uint64_t> out) {
  for (std::size_t k = 0; k < out.size();) {
    if (max > 0xffffffff) {
      out[k++] = interval(max--);
      continue;
    }
    // Draws while the mask stays the same. The next word overwrites one that is too large: a
    // branch on it would be mispredicted every third time.
    const std::uint32_t mask = ~0u >> std::countl_zero(static_cast<std::uint32_t>(max));
    const std::size_t end = std::min<std::uint64_t>(out.size(), k + (max - mask / 2));
    while (k < end) {
      const std::uint32_t value = next32() & mask;
      out[k] = value;
      const bool taken = value <= max;
      k += taken;
      max -= taken;
    }
  }
}

double NumpyRandom::random() {
  const std::uint32_t a = next32() >> 5;
  const std::uint32_t b = next32() >> 6;
  return (a * 67108864.0 + b) / 9007199254740992.0;
}

std::int64_t NumpyRandom::choice(std::span<const double> probabilities) {
  std::vector<double> cdf;
  double sum = 0;
  for (const double p : probabilities) cdf.push_back(sum += p);
  const double u = random();
  std::int64_t index = 0;
  for (double& edge : cdf) {
    if (u < edge / sum) break;
    ++index;
  }
  return index;
}

}  // namespace trireme
