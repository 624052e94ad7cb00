// How the elements of two tensors of one shape differ, gathered piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace trireme {

// Of one type, elements are equal if their bits are. Of two floating-point types, they are equal if
// both are the same number with the same sign, or NaN.
class TensorDifference {
 public:
  // Refused by comparable() first: an integer type and another type.
  TensorDifference(DType a, DType b) : a_(a), b_(b) {}
  static bool comparable(DType a, DType b);

  // Takes in the next `count` elements of both, in the order in which they are stored.
  void add(const std::byte* a, const std::byte* b, std::int64_t count);

  std::int64_t elements() const { return elements_; }
  std::int64_t differing() const { return differing_; }
  // Of these: one of the two is NaN or infinite. The others have the largest differences below:
  // |a - b|, and that over the larger of |a| and |b|.
  std::int64_t not_finite() const { return not_finite_; }
  double largest_absolute() const { return largest_absolute_; }
  double largest_relative() const { return largest_relative_; }

  // An element that differs, and its values.
  struct Place {
    std::int64_t element = -1;  // -1: none differs
    double a = 0, b = 0;
  };
  const Place& first() const { return first_; }
  // Where the largest absolute difference is, or the first that is not finite.
  const Place& largest() const { return largest_; }

  // Of two floating-point types, whether each element of the narrower one is that of the other,
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
