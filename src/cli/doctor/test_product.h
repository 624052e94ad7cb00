// A small product with a known result, to test processors and GPUs in `trireme doctor`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/kernels.h"

namespace trireme::cli {

// y = x weight^T in the storage type T; the caller computes y.
template <class T>
struct TestProduct {
  static constexpr LinearShape shape{48, 160, 96};
  std::vector<T> x = waves(shape.rows * shape.in, 0.7);
  std::vector<T> weight = waves(shape.out * shape.in, 1.3);
  std::vector<T> y = std::vector<T>(static_cast<std::size_t>(shape.rows * shape.out));

  // Maximum difference of y from the result in double, relative to the largest value.
  double error() const {
    double error = 0, largest = 0;
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      for (std::int64_t o = 0; o < shape.out; ++o) {
        double sum = 0;
        for (std::int64_t i = 0; i < shape.in; ++i)
          sum += number(x[r * shape.in + i]) * number(weight[o * shape.in + i]);
        const double found = number(y[r * shape.out + o]);
        error = std::isfinite(found) ? std::max(error, std::abs(found - sum)) : INFINITY;
        largest = std::max(largest, std::abs(sum));
      }
    }
    return error / largest;
  }

 private:
  static double number(T value) { return static_cast<float>(value); }
  static std::vector<T> waves(std::int64_t count, double phase) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<T>(static_cast<float>(std::sin(phase * static_cast<double>(i + 1))));
    return values;
  }
};

}  // namespace trireme::cli
