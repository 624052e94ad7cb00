// Embedding look-up.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

constexpr int threads = 128;

template <class T>
struct EmbeddingArguments {
  T* y;
  const std::int32_t* ids;
  const T *table, *position_table;
  const std::int32_t* positions;
  const T* type_table;
  const std::int32_t* types;
  std::int64_t cols, seq, first_id, local_ids;
  bool aligned;
};

// One block for each row.
template <class T>
GPU_KERNEL(threads)
embedding_kernel(const EmbeddingArguments<T> a) {
  const std::int64_t row = block_index().x;
  const std::int64_t id = a.ids[row] - a.first_id;
  const bool here = id >= 0 && id < a.local_ids;
  const std::int64_t position =
      !a.position_table ? 0 : (a.positions ? a.positions[row] : row % a.seq) * a.cols;
  const std::int64_t type = a.type_table ? a.types[row] * a.cols : 0;
  const auto plus = [](float p, float q) { return p + q; };
  for (std::int64_t c = 8 * thread_index(); c < a.cols; c += 8 * threads) {
    const Columns at = columns_at(c, a.cols, a.aligned);
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
void embedding(Queue& queue, T* y, const std::int32_t* ids, const T* table, const T* position_table,
               const std::int32_t* positions, const T* type_table, const std::int32_t* types,
               std::int64_t rows, std::int64_t cols, std::int64_t seq, std::int64_t first_id,
               std::int64_t local_ids) {
  const EmbeddingArguments<T> a{
      .y = y,
      .ids = ids,
      .table = table,
      .position_table = position_table,
      .positions = positions,
      .type_table = type_table,
      .types = types,
      .cols = cols,
      .seq = seq,
      .first_id = first_id,
      .local_ids = local_ids,
      .aligned = rows_are_aligned(cols, y, table, position_table, type_table)};
  launch(queue, one_block_each(rows, threads), embedding_kernel<T>, a);
}

}  // namespace

template <class T>
void set_embedding(Kernels<T>& table) {
  table.embedding = embedding<T>;
}
TRIREME_GPU_INSTANTIATE(set_embedding);

}  // namespace trireme::gpu
