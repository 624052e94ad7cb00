// Partition of reductions over rows: each chunk sums its rows into its own partial result, and
// partial results are added in order. It depends only on the number of rows.
#pragma once

#include <algorithm>
#include <cstdint>

namespace trireme::gpu {

struct RowChunks {
  std::int64_t rows_each, count;
};
constexpr RowChunks cut_rows(std::int64_t rows, std::int64_t most_chunks, std::int64_t least_rows) {
  const std::int64_t even = (rows + most_chunks - 1) / most_chunks;
  const std::int64_t each = std::max(even, least_rows);
  return {each, (rows + each - 1) / each};
}

// A norm_grad chunk is processed entirely by one block, so there must be many; a bias_grad chunk is
// shared by several blocks.
constexpr RowChunks norm_grad_chunks(std::int64_t rows) {
  return cut_rows(rows, 256, 8);
}
constexpr RowChunks bias_grad_chunks(std::int64_t rows) {
  return cut_rows(rows, 64, 32);
}

// attention_grad sums the rows of each tile of 16 positions of a sample.
constexpr std::int64_t attention_grad_chunks(std::int64_t batch, std::int64_t seq) {
  return batch * ((seq + 15) / 16);
}

// Expert choices per block of the dispatch; chunks do not cross blocks of rows.
inline constexpr std::int64_t dispatch_chunk = 1024;
struct DispatchChunks {
  std::int64_t block_choices, per_block;
};
constexpr DispatchChunks dispatch_chunks(std::int64_t choices, std::int64_t blocks) {
  const std::int64_t each = choices / blocks;
  return {each, (each + dispatch_chunk - 1) / dispatch_chunk};
}

}  // namespace trireme::gpu
