// Long accumulators.
#include "base/exact_sum.h"

#include <cmath>
#include <limits>

namespace trireme {
namespace {

// Of the unit of limb 0. The smallest double is 2^-1074; as a mantissa of 53 bits its last bit
// counts 2^-1126.
constexpr int lowest_exponent = -1152;
constexpr std::int64_t limb_mask = 0xffffffff;

}  // namespace

void ExactSum::add(double term) {
  if (!std::isfinite(term)) {
    ++words_[limb_count];
    return;
  }
  if (term == 0) return;
  int exponent;
  const double mantissa = std::frexp(term, &exponent);
  const auto integer = static_cast<std::int64_t>(std::ldexp(mantissa, 53));
  const int shift = exponent - 53 - lowest_exponent;
  const int first = shift / 32, bit = shift % 32;
  const std::uint64_t size = static_cast<std::uint64_t>(integer < 0 ? -integer : integer);
  // 53 bits, shifted by up to 31, in three limbs.
  const std::uint64_t low = (size << bit) & limb_mask;
  const std::uint64_t rest = bit == 0 ? size >> 32 : size >> (32 - bit);
  const std::int64_t sign = integer < 0 ? -1 : 1;
  words_[first] += sign * static_cast<std::int64_t>(low);
  words_[first + 1] += sign * static_cast<std::int64_t>(rest & limb_mask);
  words_[first + 2] += sign * static_cast<std::int64_t>(rest >> 32);
  if (++additions_ == std::int64_t{1} << 30) normalize();
}

void ExactSum::add(const ExactSum& other) {
  ExactSum addend = other;
  addend.normalize();
  normalize();
  for (int i = 0; i < word_count; ++i) words_[i] += addend.words_[i];
  additions_ = 1;
}

void ExactSum::normalize() {
  std::int64_t carry = 0;
  for (int i = 0; i + 1 < limb_count; ++i) {
    const std::int64_t sum = words_[i] + carry;
    words_[i] = sum & limb_mask;
    carry = sum >> 32;  // rounds down: limbs become positive, the top one keeps the sign
  }
  words_[limb_count - 1] += carry;
  additions_ = 0;
}

double ExactSum::value() const {
  if (words_[limb_count] != 0) return std::numeric_limits<double>::quiet_NaN();
  ExactSum sum = *this;
  sum.normalize();
  const bool negative = sum.words_[limb_count - 1] < 0;
  if (negative) {
    for (int i = 0; i < limb_count; ++i) sum.words_[i] = -sum.words_[i];
    sum.normalize();
  }
  int top = limb_count - 1;
  while (top > 0 && sum.words_[top] == 0) --top;
  double value = 0;
  for (int i = top; i >= 0 && i > top - 4; --i) {
    value += std::ldexp(static_cast<double>(sum.words_[i]), 32 * i + lowest_exponent);
  }
  return negative ? -value : value;
}

std::span<std::int64_t, ExactSum::word_count> ExactSum::normalized_words() {
  normalize();
  return words_;
}

}  // namespace trireme
