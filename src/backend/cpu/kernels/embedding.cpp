// Embedding look-up and its gradient.
#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/kernels/table.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// y = a + b + c; b and c may be null.
template <class T>
void add_rows(T* y, const T* a, const T* b, const T* c, std::int64_t cols) {
  for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    auto sum = load(a + i, n);
    if (b) sum += load(b + i, n);
    if (c) sum += load(c + i, n);
    store(y + i, sum, n);
  });
}

template <class T>
void embedding(const EmbeddingOperands<T>& o) {
  const std::int64_t cols = o.cols;
  const double row_ns = 4 * sizeof(T) * byte_ns * static_cast<double>(cols);
  parallel_pieces(o.rows, row_ns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t id = o.ids[r] - o.first_id;
      T* to = o.y + r * cols;
      if (id < 0 || id >= o.local_ids) {
        __builtin_memset(static_cast<void*>(to), 0, cols * sizeof(T));
        continue;
      }
      const std::int64_t position = o.positions ? o.positions[r] : r % o.seq;
      add_rows(to, o.table + id * cols,
               o.position_table ? o.position_table + position * cols : nullptr,
               o.type_table ? o.type_table + o.types[r] * cols : nullptr, cols);
    }
  });
}

// Sorts the rows by id, stably. The rows of id i are order[start[i]] to order[start[i + 1] - 1];
// rows with other ranks' ids are omitted.
struct RowsById {
  std::int32_t* start;  // [local_ids + 1]
  std::int32_t* order;  // [rows]

  RowsById(std::int32_t* workspace, const std::int32_t* ids, std::int64_t rows,
           std::int64_t first_id, std::int64_t local_ids)
      : start(workspace), order(workspace + local_ids + 1) {
    for (std::int64_t i = 0; i <= local_ids; ++i) start[i] = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t id = ids[r] - first_id;
      if (id >= 0 && id < local_ids) ++start[id];
    }
    std::int32_t total = 0;
    for (std::int64_t i = 0; i <= local_ids; ++i) start[i] = total += start[i];
    // start[i] is the end of i's rows; filling from the back turns it into their start.
    for (std::int64_t r = rows - 1; r >= 0; --r) {
      const std::int64_t id = ids[r] - first_id;
      if (id >= 0 && id < local_ids) order[--start[id]] = static_cast<std::int32_t>(r);
    }
  }
};

template <class T>
void embedding_grad(Acc<T>* dtable, bool accumulate, const std::int32_t* ids, const T* dy,
                    std::int64_t rows, std::int64_t cols, std::int64_t first_id,
                    std::int64_t local_ids, std::int32_t* workspace) {
  const RowsById sorted(workspace, ids, rows, first_id, local_ids);
  // Average cost per id.
  const double touched = static_cast<double>(rows) * 3 * sizeof(Acc<T>) +
                         (accumulate ? 0.0 : static_cast<double>(local_ids) * sizeof(Acc<T>));
  const double id_ns =
      touched * static_cast<double>(cols) * byte_ns / static_cast<double>(local_ids);
  parallel_pieces(local_ids, id_ns, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t id = begin; id < end; ++id) {
      Acc<T>* sum = dtable + id * cols;
      if (!accumulate) __builtin_memset(sum, 0, cols * sizeof(Acc<T>));
      for (std::int32_t i = sorted.start[id]; i < sorted.start[id + 1]; ++i) {
        add_row(sum, dy + sorted.order[i] * cols, cols);
      }
    }
  });
}

}  // namespace

template <class T>
void set_embedding(Kernels<T>& table) {
  table.embedding = at_once<embedding<T>>;
  table.embedding_grad = at_once<embedding_grad<T>>;
}
TRIREME_INSTANTIATE(set_embedding)

}  // namespace trireme::cpu::TRIREME_ISA
