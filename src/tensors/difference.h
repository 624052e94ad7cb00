// Accumulates the difference of two tensors of equal shape, piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace trireme {

// Elements of the same type are equal if their bits are. Elements of two floating-point types are
// equal if they are the same number with the same sign, or both NaN.
class TensorDifference {
 public:
  // Requires comparable(a, b), which is false for an integer type and a different type.
  TensorDifference(DType a, DType b) : a_(a), b_(b) {}
  static bool comparable(DType a, DType b);

  // Adds the next `count` elements of both, in storage order.
  void add(const std::byte* a, const std::byte* b, std::int64_t count);

  std::int64_t elements() const { return elements_; }
  std::int64_t differing() const { return differing_; }
  // Number of differing elements where either is NaN or infinite. The others determine the maxima
  // of |a - b| and of |a - b| / max(|a|, |b|).
  std::int64_t not_finite() const { return not_finite_; }
  double largest_absolute() const { return largest_absolute_; }
  double largest_relative() const { return largest_relative_; }

  // A differing element and its values.
  struct Place {
    std::int64_t element = -1;  // -1: none differs
    double a = 0, b = 0;
  };
  const Place& first() const { return first_; }
  // The element with the largest absolute difference, or the first non-finite one.
  const Place& largest() const { return largest_; }

  // For two floating-point types: whether each element of the narrower type equals the other's,
  // rounded to nearest.
  bool rounded() const { return rounded_ && can_be_rounded(); }

 private:
  bool can_be_rounded() const { return size_of(a_) != size_of(b_); }
  void note(const Place& place);
  void compare(const std::byte* a, const std::byte* b, std::int64_t count);
  void check_rounding(const std::byte* a, const std::byte* b, std::int64_t count);

  DType a_, b_;
  std::int64_t elements_ = 0, differing_ = 0, not_finite_ = 0;
  double largest_absolute_ = 0, largest_relative_ = 0;
  Place first_, largest_;
  bool rounded_ = true;
  std::vector<std::byte> cast_;
};

}  // namespace trireme
