// Shape of up to four dimensions, row-major, without heap allocation.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/error.h"

namespace trireme {

class Shape {
 public:
  static constexpr int max_rank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) {
    TRIREME_CHECK(dims.size() <= max_rank);
    for (const std::int64_t dim : dims) dims_[rank_++] = dim;
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return dims_[i]; }
  std::int64_t& operator[](int i) { return dims_[i]; }
  std::int64_t back() const { return dims_[rank_ - 1]; }
  // Product of all dimensions; 1 for a scalar.
  std::int64_t count() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[i];
    return n;
  }
  // Product of all dimensions except the last.
  std::int64_t rows() const { return rank_ == 0 ? 1 : count() / (back() == 0 ? 1 : back()); }
  bool operator==(const Shape& other) const { return rank_ == other.rank_ && dims_ == other.dims_; }
  // "[4, 1024, 768]", for messages.
  std::string text() const {
    std::string out = "[";
    for (int i = 0; i < rank_; ++i) out += (i ? ", " : "") + std::to_string(dims_[i]);
    return out + "]";
  }
  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + rank_; }
  void push_back(std::int64_t dim) {
    TRIREME_CHECK(rank_ < max_rank);
    dims_[rank_++] = dim;
  }

 private:
  std::array<std::int64_t, max_rank> dims_{};
  std::int8_t rank_ = 0;
};

}  // namespace trireme
