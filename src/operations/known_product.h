// A matrix product with a known result: small integers, so that no sum is rounded, for any order of
// summation and any instructions.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/kernels.h"

namespace trireme {

// y = x weight^T in fp32.
struct KnownProduct {
  static constexpr LinearShape shape{256, 512, 512};
  // XXH3 of y. A test verifies it with integer arithmetic.
  static constexpr std::uint64_t hash = 0x6a26375901d1d4b9;

  std::vector<float> x = numbers(shape.rows * shape.in, 7);
  std::vector<float> weight = numbers(shape.out * shape.in, 11);

  // Flops of the product, by definition.
  static double flops() {
    return 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.in) *
           static_cast<double>(shape.out);
  }

 private:
  // From -8 to 8, so that the largest sum has 16 bits.
  static std::vector<float> numbers(std::int64_t count, std::uint32_t seed) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::uint32_t state = seed;
    for (float& value : values) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int>((state >> 16) % 17) - 8);
    }
    return values;
  }
};

}  // namespace trireme
