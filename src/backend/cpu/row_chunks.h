// Partition of reductions over rows: each chunk sums its rows into its own partial result, and
// partial results are added in order. It depends only on the number of rows.
#pragma once

#include <cstdint>

namespace trireme::cpu {
namespace {  // kernels of several instruction sets include this: nothing may be shared by the
             // linker

constexpr std::int64_t max_row_chunks = 64;
constexpr std::int64_t min_rows_per_chunk = 16;

[[maybe_unused]] constexpr std::int64_t rows_per_chunk(std::int64_t rows) {
  const std::int64_t even = (rows + max_row_chunks - 1) / max_row_chunks;
  return even < min_rows_per_chunk ? min_rows_per_chunk : even;
}

[[maybe_unused]] constexpr std::int64_t row_chunks(std::int64_t rows) {
  return (rows + rows_per_chunk(rows) - 1) / rows_per_chunk(rows);
}

}  // namespace
}  // namespace trireme::cpu
