// Statistics of a tensor's values, accumulated piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace trireme {

class TensorStats {
 public:
  // Adds `count` elements.
  void add(DType dtype, const std::byte* data, std::int64_t count);

  // Statistics of the finite values; zero if there are none.
  double min() const { return finite_ > 0 ? min_ : 0; }
  double max() const { return finite_ > 0 ? max_ : 0; }
  double mean() const { return finite_ > 0 ? sum_ / static_cast<double>(finite_) : 0; }
  std::int64_t nans() const { return nans_; }
  std::int64_t infinities() const { return infinities_; }

 private:
  template <class T>
  void add_elements(const std::byte* data, std::int64_t count);

  double min_ = 0, max_ = 0, sum_ = 0;
  std::int64_t finite_ = 0, nans_ = 0, infinities_ = 0;
};

}  // namespace trireme
