// Gradient of a bias: a sum over rows.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/partial_sums.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"
#include "backend/gpu/row_chunks.h"

namespace trireme::gpu {
namespace {

// A block sums a chunk of rows of 256 columns: eight columns per thread, every eighth
// row per lane of 32 threads.
constexpr int columns_wide = 32, lanes = 8;

struct LaneSums {
  float of[lanes][8 * columns_wide];
};

template <class T>
GPU_KERNEL(columns_wide* lanes)
bias_parts_kernel(float* parts, const T* dy, std::int64_t rows, std::int64_t cols,
                  std::int64_t chunk_rows, bool aligned) {
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
      sum = each([](float p, float q) { return p + q; }, sum, load(dy + row * cols, at));
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

template <class T>
void bias_grad(Queue& queue, float* dbias, bool accumulate, const T* dy, std::int64_t rows,
               std::int64_t cols, float* workspace) {
  const RowChunks chunks = bias_grad_chunks(rows);
  const Launch size{
      .blocks = Size{static_cast<unsigned>((cols + 8 * columns_wide - 1) / (8 * columns_wide)),
                     static_cast<unsigned>(chunks.count)},
      .threads = columns_wide * lanes};
  launch(queue, size, bias_parts_kernel<T>, workspace, dy, rows, cols, chunks.rows_each,
         rows_are_aligned(cols, dy));
  add_parts(queue, dbias, accumulate, workspace, chunks.count, cols);
}

}  // namespace

template <class T>
void set_bias_grad(Kernels<T>& table) {
  table.bias_grad = bias_grad<T>;
}
TRIREME_GPU_INSTANTIATE(set_bias_grad);

}  // namespace trireme::gpu
