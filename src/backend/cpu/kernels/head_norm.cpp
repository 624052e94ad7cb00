// RMSNorm of queries and keys, head by head, and its gradient.
#include "backend/cpu/kernels/combine_chunks.h"
#include "backend/cpu/kernels/norm_rows.h"
#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/table.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// Calls normed(column, index, is_key) for each head of queries and keys, in the order in which they
// lie in a row, and value(column) for each head of values.
template <class Normed, class Value>
TRIREME_INLINE void for_heads(const HeadNormShape& s, const Normed& normed, const Value& value) {
  std::int64_t column = 0, index = 0;
  for (std::int64_t group = 0; group < s.groups; ++group) {
    for (std::int64_t head = 0; head <= s.queries_per_group; ++head, column += s.head_dim)
      normed(column, index++, head == s.queries_per_group);
    value(column);
    column += s.head_dim;
  }
}

template <class T>
double row_ns(const HeadNormShape& s, int tensors) {
  return tensors * sizeof(T) * byte_ns * static_cast<double>(s.qkv_cols());
}

template <class T>
void head_norm(const HeadNormShape& s, T* y, Acc<T>* rstd, const T* x, const T* query_weight,
               const T* key_weight) {
  using A = Acc<T>;
  const std::int64_t cols = s.qkv_cols(), heads = s.normed_heads(), d = s.head_dim;
  parallel_pieces(s.rows, row_ns<T>(s, 2), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* const from = x + r * cols;
      T* const to = y + r * cols;
      for_heads(
          s,
          [&](std::int64_t at, std::int64_t index, bool is_key) {
            const A scale =
                reciprocal_root(mean_square_of(from + at, A{0}, d) + static_cast<A>(s.eps));
            if (rstd) rstd[r * heads + index] = scale;
            normalise<T>(to + at, from + at, is_key ? key_weight : query_weight, nullptr, A{0},
                         scale, d);
          },
          [&](std::int64_t at) { __builtin_memcpy(to + at, from + at, d * sizeof(T)); });
    }
  });
}

template <class T>
void head_norm_grad(const HeadNormShape& s, T* dx, Acc<T>* dquery_weight, Acc<T>* dkey_weight,
                    bool accumulate, const T* dy, const T* x, const Acc<T>* rstd,
                    const T* query_weight, const T* key_weight, Acc<T>* workspace) {
  using A = Acc<T>;
  const std::int64_t cols = s.qkv_cols(), heads = s.normed_heads(), d = s.head_dim;
  const std::int64_t chunks = row_chunks(s.rows);
  A* const query_parts = workspace;
  A* const key_parts = workspace + chunks * d;
  parallel_chunks(s.rows, rows_per_chunk(s.rows), row_ns<T>(s, 4),
                  [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
                    A* const dquery = query_parts + part * d;
                    A* const dkey = key_parts + part * d;
                    __builtin_memset(dquery, 0, d * sizeof(A));
                    __builtin_memset(dkey, 0, d * sizeof(A));
                    for (std::int64_t r = begin; r < end; ++r) {
                      const std::int64_t row = r * cols;
                      for_heads(
                          s,
                          [&](std::int64_t column, std::int64_t index, bool is_key) {
                            const std::int64_t at = row + column;
                            const T* const weight = is_key ? key_weight : query_weight;
                            const auto grad = row_grad(false, dy + at, x + at, weight, A{0},
                                                       rstd[r * heads + index], d);
                            apply_row_grad<T>(grad, dx + at, is_key ? dkey : dquery, nullptr,
                                              dy + at, x + at, weight, nullptr, d);
                          },
                          [&](std::int64_t column) {
                            __builtin_memcpy(dx + row + column, dy + row + column, d * sizeof(T));
                          });
                    }
                  });
  combine_chunks(dquery_weight, accumulate, query_parts, chunks, d);
  combine_chunks(dkey_weight, accumulate, key_parts, chunks, d);
}

}  // namespace

template <class T>
void set_head_norm(Kernels<T>& table) {
  table.head_norm = at_once<head_norm<T>>;
  table.head_norm_grad = at_once<head_norm_grad<T>>;
}
TRIREME_INSTANTIATE(set_head_norm);

}  // namespace trireme::cpu::TRIREME_ISA
