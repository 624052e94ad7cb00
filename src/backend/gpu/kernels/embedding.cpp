// Embedding look-up.
#include "backend/gpu/kernels/any_kernel.h"
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

constexpr int threads = 128;

// One block per row.
template <class T>
GPU_KERNEL(threads)
embedding_kernel(const EmbeddingOperands<T> a, bool aligned) {
  const std::int64_t row = block_index().x;
  const std::int64_t id = a.ids[row] - a.first_id;
  const bool here = id >= 0 && id < a.local_ids;
  const std::int64_t position =
      !a.position_table ? 0 : (a.positions ? a.positions[row] : row % a.seq) * a.cols;
  const std::int64_t type = a.type_table ? a.types[row] * a.cols : 0;
  const auto plus = [](float p, float q) { return p + q; };
  for (std::int64_t c = 8 * thread_index(); c < a.cols; c += 8 * threads) {
    const Columns at = columns_at(c, a.cols, aligned);
    Eight sum = zeros();
    if (here) {
      sum = load(a.table + id * a.cols, at);
      if (a.position_table) sum = each(plus, sum, load(a.position_table + position, at));
      if (a.type_table) sum = each(plus, sum, load(a.type_table + type, at));
    }
    store(a.y + row * a.cols, at, sum);
  }
}

template <class T>
void embedding(Queue& queue, const EmbeddingOperands<T>& o) {
  launch(queue, one_block_each(o.rows, threads), embedding_kernel<T>, o,
         rows_are_aligned(o.cols, o.y, o.table, o.position_table, o.type_table));
}

}  // namespace

template <class T>
void set_embedding(Kernels<T>& table) {
  table.embedding = embedding<T>;
}
TRIREME_GPU_INSTANTIATE(set_embedding);

const void* any_kernel() {
  return reinterpret_cast<const void*>(embedding_kernel<float>);
}

}  // namespace trireme::gpu
