// Exact sum of doubles: the result is bitwise independent of the order and grouping of the terms.
// Used for losses and gradient norms, so that they do not depend on the parallel layout.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace trireme {

// Fixed-point accumulator that covers the whole range of double (Kulisch's long accumulator). Limb
// i has units of 2^(32 i - 1152). Between normalizations a limb may exceed 32 bits, so limbs can be
// added, also across ranks, without carries.
class ExactSum {
 public:
  static constexpr int limb_count = 70;
  // The limbs, followed by the number of non-finite terms.
  static constexpr int word_count = limb_count + 1;

  void add(double term);
  void add(const ExactSum& other);

  // The sum rounded to double; NaN if any term was not finite.
  double value() const;

  // The whole state as integers, which may be added to those of up to 2^30 other sums.
  std::span<std::int64_t, word_count> normalized_words();

 private:
  void normalize();

  std::array<std::int64_t, word_count> words_{};
  std::int64_t additions_ = 0;  // since the last normalization
};

}  // namespace trireme
