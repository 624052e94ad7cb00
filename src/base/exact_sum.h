// A sum of doubles without rounding: any order and any grouping of the terms give the same bits.
// Losses and gradient norms are summed with it, so that they do not know the layout.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace trireme {

// A fixed-point number that covers the whole range of double (Kulisch's long accumulator): limb i
// counts units of 2^(32 i - 1152). Between normalizations a limb may hold more than 32 bits, so
// that sums of limbs, also those of other ranks, need no carries.
class ExactSum {
 public:
  static constexpr int limb_count = 70;
  // Limbs and, last, the number of terms that were not finite.
  static constexpr int word_count = limb_count + 1;

  void add(double term);
  void add(const ExactSum& other);

  // The sum, rounded; NaN if a term was not finite.
  double value() const;

  // All state as integers, ready to be summed with those of up to 2^30 other sums.
  std::span<std::int64_t, word_count> normalized_words();

 private:
  void normalize();

  std::array<std::int64_t, word_count> words_{};
  std::int64_t additions_ = 0;  // since the last normalization
};

}  // namespace trireme
