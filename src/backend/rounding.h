// Rounding of gradients and states to fixed point and to bf16, with the same bits on every device.
#pragma once

#include <bit>
#include <cstdint>

#include "backend/state_kernels.h"
#include "base/dtype.h"
#include "base/random.h"

namespace trireme {

// Fixed-point units per unit of a gradient that is still multiplied by the loss scale.
constexpr double fixed_point_units(const StepBlock& block) {
  return static_cast<double>(std::int64_t{1} << fixed_point_bits) / block.loss_scale;
}

// Key of one array's random bits: a pure function of the arguments.
constexpr std::uint64_t rounding_key(std::uint64_t seed, std::uint64_t counter,
                                     std::uint32_t stream, std::uint32_t use) {
  const Philox words = philox(seed, {static_cast<std::uint32_t>(counter),
                                     static_cast<std::uint32_t>(counter >> 32), stream, use});
  return std::uint64_t{words[0]} << 32 | words[1];
}
constexpr std::uint64_t rounding_key(const Rounding& r) {
  const std::uint64_t counter =
      r.counter == Rounding::Counter::step ? r.block->step : r.block->updates;
  return rounding_key(r.block->seed + r.seed_offset, counter, r.stream, r.use);
}

// Number of neighboring elements that share a word of random bits, 16 each, the lowest first.
inline constexpr int rounding_group = 4;
// Random word of group `group`: the finalizer of SplitMix64 (Steele et al. 2014).
constexpr std::uint64_t rounding_bits(std::uint64_t key, std::uint64_t group) {
  std::uint64_t x = key + group * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Adds random bits to x and truncates its lower half. Infinity and NaN are preserved.
constexpr bf16 round_stochastically(float x, std::uint16_t bits) {
  const auto all = std::bit_cast<std::uint32_t>(x);
  const bool nan = (all & 0x7fffffff) > 0x7f800000;
  bf16 result(0.0f);
  result.bits = static_cast<std::uint16_t>(nan ? (all >> 16) | 0x40 : (all + bits) >> 16);
  return result;
}

}  // namespace trireme
