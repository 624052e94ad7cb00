// Gradient of an embedding table: rows of equal id are added in row order.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/sort_rows.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

// One block per table row and 8 * 64 columns.
template <class T>
GPU_KERNEL(64)
embedding_grad_kernel(float* dtable, bool accumulate, const T* dy, const std::int32_t* start,
                      const std::int32_t* order, std::int64_t cols, bool aligned) {
  const std::int64_t id = block_index().x;
  const std::int32_t begin = start[id], end = start[id + 1];
  if (accumulate && begin == end) return;
  const Columns at =
      columns_at(8 * (std::int64_t{block_index().y} * 64 + thread_index()), cols, aligned);
  if (!at.any()) return;
  Eight sum = accumulate ? load(dtable + id * cols, at) : zeros();
  const auto plus = [](float p, float q) { return p + q; };
  constexpr int ahead = 4;  // rows loaded in advance while others are added
  std::int32_t i = begin;
  for (; i + ahead <= end; i += ahead) {
    Eight rows[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) rows[k] = load(dy + order[i + k] * cols, at);
#pragma unroll
    for (int k = 0; k < ahead; ++k) sum = each(plus, sum, rows[k]);
  }
  for (; i < end; ++i) sum = each(plus, sum, load(dy + order[i] * cols, at));
  store(dtable + id * cols, at, sum);
}

template <class T>
void embedding_grad(Queue& queue, float* dtable, bool accumulate, const std::int32_t* ids,
                    const T* dy, std::int64_t rows, std::int64_t cols, std::int64_t first_id,
                    std::int64_t local_ids, std::int32_t* workspace) {
  std::int32_t* const start = workspace;
  std::int32_t* const order = workspace + local_ids + 1;
  sort_rows(queue, start, order, ids, rows, first_id, local_ids);
  const Launch size{.blocks = Size{static_cast<unsigned>(local_ids),
                                   static_cast<unsigned>((cols + 8 * 64 - 1) / (8 * 64))},
                    .threads = 64};
  launch(queue, size, embedding_grad_kernel<T>, dtable, accumulate, dy, start, order, cols,
         rows_are_aligned(cols, dtable, dy));
}

}  // namespace

template <class T>
void set_embedding_grad(Kernels<T>& table) {
  table.embedding_grad = embedding_grad<T>;
}
TRIREME_GPU_INSTANTIATE(set_embedding_grad);

}  // namespace trireme::gpu
