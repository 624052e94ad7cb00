// Exact summation in a long accumulator.
#include "base/exact_sum.h"

#include <cmath>
#include <limits>

#include "base/exact_split.h"

namespace trireme {
namespace {

// Exponent of the unit of limb 0.
constexpr int lowest_exponent = -1152;
constexpr std::int64_t limb_mask = 0xffffffff;

}  // namespace

void ExactSum::add(double term) {
  if (term == 0) return;
  const ExactSplit parts = split_exactly(term);
  if (parts.first == limb_count) {
    ++words_[limb_count];
    return;
  }
  for (int i = 0; i < 3; ++i) words_[parts.first + i] += parts.words[i];
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
    carry = sum >> 32;  // floors: lower limbs become non-negative, the top one keeps the sign
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
