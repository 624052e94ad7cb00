// Scratch sizes of attention's backward pass, shared by kernels and planning.
#pragma once

#include <cstdint>

namespace trireme::cpu {
namespace {  // kernels of several instruction sets include this: nothing may be shared by the
             // linker

// Number of queries whose gradients are summed together.
constexpr std::int64_t attention_tile_queries = 64;

// Packed head_dim: a multiple of 16 for fused multiply-adds, of 32 for the matrix unit.
[[maybe_unused]] constexpr std::int64_t attention_columns(std::int64_t head_dim, bool matrix_unit) {
  const std::int64_t step = matrix_unit ? 32 : 16;
  return (head_dim + step - 1) / step * step;
}

// Size in elements of the dq accumulators of a group of `heads` heads.
[[maybe_unused]] constexpr std::int64_t attention_dq_elements(std::int64_t heads,
                                                              std::int64_t queries,
                                                              std::int64_t head_dim,
                                                              bool matrix_unit) {
  const std::int64_t tile = attention_tile_queries;
  return heads * ((queries + tile - 1) / tile * tile) * attention_columns(head_dim, matrix_unit);
}

}  // namespace
}  // namespace trireme::cpu
