// Sums over chunks of rows, the first stage of the gradient of a bias: of rows that are there, or
// of rows that a kernel computes meanwhile.
#pragma once

#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/partial_sums.h"
#include "backend/gpu/launch.h"
#include "backend/gpu/row_chunks.h"

namespace trireme::gpu {

// A block sums a chunk of rows of 256 columns: eight columns per thread, every eighth row per lane
// of 32 threads.
struct RowSums {
  static constexpr int columns_wide = 32, lanes = 8, threads = columns_wide * lanes;
  struct LaneSums {
    float of[lanes][8 * columns_wide];
  };

  float* parts;  // [chunks, cols]
  std::int64_t rows, cols, chunk_rows;

  // values(row, columns): eight values of a row. Called by all threads of a block.
  template <class Values>
  GPU_FN void add(bool aligned, const Values& values) const {
    const int column = static_cast<int>(thread_index()) % columns_wide;
    const int mine = static_cast<int>(thread_index()) / columns_wide;
    const std::int64_t first = block_index().y * chunk_rows;
    const std::int64_t end = first + chunk_rows < rows ? first + chunk_rows : rows;
    const std::int64_t first_column = std::int64_t{block_index().x} * 8 * columns_wide;
    const Columns at = columns_at(first_column + 8 * column, cols, aligned);
    Eight sum = zeros();
    if (at.any()) {
#pragma unroll 4
      for (std::int64_t row = first + mine; row < end; row += lanes)
        sum = each([](float p, float q) { return p + q; }, sum, values(row, at));
    }
    auto& shared = shared_memory<LaneSums>();
    for (int i = 0; i < 8; ++i) shared.of[mine][8 * column + i] = sum.v[i];
    sync_block();
    const auto c = static_cast<int>(thread_index());  // one column per thread
    if (first_column + c >= cols) return;
    float total = 0;
    for (int l = 0; l < lanes; ++l) total += shared.of[l][c];
    parts[block_index().y * cols + first_column + c] = total;
  }
};

// Launches kernel(sums, arguments...), which calls sums.add(), and adds up the parts:
// dst (+)= the sum of all rows. Takes bias_grad_workspace(rows, cols) bytes of workspace.
template <class... Parameters, class... Arguments>
void sum_rows(Queue& queue, float* dst, bool accumulate, float* workspace, std::int64_t rows,
              std::int64_t cols, void (*kernel)(RowSums, Parameters...), Arguments... arguments) {
  const RowChunks chunks = bias_grad_chunks(rows);
  constexpr int wide = 8 * RowSums::columns_wide;
  const Launch size{.blocks = Size{static_cast<unsigned>((cols + wide - 1) / wide),
                                   static_cast<unsigned>(chunks.count)},
                    .threads = RowSums::threads};
  launch(queue, size, kernel, RowSums{workspace, rows, cols, chunks.rows_each}, arguments...);
  add_parts(queue, dst, accumulate, workspace, chunks.count, cols);
}

}  // namespace trireme::gpu
