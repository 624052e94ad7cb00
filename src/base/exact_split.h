// Splits a term into the limbs of an ExactSum; shared with kernels that accumulate by integer
// atomics.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/exact_sum.h"

namespace trireme {

// A term's contribution to three adjacent limbs, or to the count of non-finite terms.
struct ExactSplit {
  int first;  // index of the first word
  std::int64_t words[3];
};

// The smallest double is 2^-1074 and the unit of limb 0 is 2^-1152, so the last bit of a double
// with exponent field e is worth 2^(e + 77) units.
constexpr ExactSplit split_exactly(double term) {
  const auto bits = std::bit_cast<std::uint64_t>(term);
  const int field = static_cast<int>(bits >> 52 & 0x7ff);
  if (field == 0x7ff) return {ExactSum::limb_count, {1, 0, 0}};
  const std::uint64_t fraction = bits & 0xfffffffffffff;
  const std::uint64_t size = field == 0 ? fraction : fraction | std::uint64_t{1} << 52;
  const int shift = (field == 0 ? 1 : field) + 77, bit = shift % 32;
  // The 53-bit significand, shifted by up to 31 bits, spans three limbs.
  const std::uint64_t low = (size << bit) & 0xffffffff;
  const std::uint64_t rest = bit == 0 ? size >> 32 : size >> (32 - bit);
  const std::int64_t sign = bits >> 63 ? -1 : 1;
  return {
      shift / 32,
      {sign * static_cast<std::int64_t>(low), sign * static_cast<std::int64_t>(rest & 0xffffffff),
       sign * static_cast<std::int64_t>(rest >> 32)}};
}

// An ExactSum as integers: its words, then the number of terms added since the last normalization,
// which must stay below 2^30.
inline constexpr int exact_state_count = ExactSum::word_count + 1;
static_assert(std::is_standard_layout_v<ExactSum> &&
              sizeof(ExactSum) == exact_state_count * sizeof(std::int64_t));
inline std::int64_t* state_of(ExactSum* sum) {
  return reinterpret_cast<std::int64_t*>(sum);
}

}  // namespace trireme
