// Benchmarks the three products of linear layers, the upper bound of a training step's speed.
#pragma once

#include <span>
#include <vector>

#include "backend/cpu/gemm.h"

namespace trireme::cpu {

struct GemmTiming {
  Product product;
  LinearShape shape;
  double seconds;  // median of one run on the global thread pool
  double gflops;   // 2 rows in out / seconds / 1e9
};

// Runs the three products of each shape, in order. Each is repeated for about `seconds_each` (at
// least three times) after a warm-up. Operands are random and have the full size of the shape.
template <class T>
std::vector<GemmTiming> time_linear_products(std::span<const LinearShape> shapes,
                                             double seconds_each = 0.2, Isa set = isa());

// The linear layers of GPT-2 124M for `tokens` tokens, with logits in chunks of 1,024 rows.
std::vector<LinearShape> gpt2_linear_shapes(std::int64_t tokens = 4096);

}  // namespace trireme::cpu
