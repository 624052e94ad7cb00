// RMSNorm of queries and keys, per head or over all heads of a row, and its gradient.
#include "backend/cpu/kernels/combine_chunks.h"
#include "backend/cpu/kernels/norm_rows.h"
#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/table.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// Calls normed(column, index, is_key) for each query and key head, in the order of the row, and
// value(column) for each value head.
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

// All-heads norms of one row: queries first, then keys. Calls `body(column, which, at)` for each
// normed head, whose weights start at `at`.
template <class Body, class Value>
TRIREME_INLINE void for_all_heads(const HeadNormShape& s, const Body& body, const Value& value) {
  std::int64_t next[2] = {0, 0};
  for_heads(
      s,
      [&](std::int64_t column, std::int64_t, bool is_key) {
        body(column, is_key ? 1 : 0, next[is_key]);
        next[is_key] += s.head_dim;
      },
      value);
}

// Number of heads that a mean over a row's heads averages.
template <class A>
A heads_of(const HeadNormShape& s, int which) {
  return static_cast<A>(s.heads_together(which == 1));
}
// Number of elements of that mean.
template <class A>
A elements_of(const HeadNormShape& s, int which) {
  return heads_of<A>(s, which) * static_cast<A>(s.head_dim);
}

template <bool zero_centered, class T>
void sums_of(const HeadNormShape& s, Acc<T>* sums, const T* x, const T* dy, const T* query_weight,
             const T* key_weight) {
  using A = Acc<T>;
  const std::int64_t cols = s.qkv_cols(), d = s.head_dim;
  const T* const weights[] = {query_weight, key_weight};
  parallel_pieces(s.rows, row_ns<T>(s, dy ? 2 : 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      A* const sum = sums + r * 2;
      sum[0] = sum[1] = 0;
      for_all_heads(
          s,
          [&](std::int64_t column, int which, std::int64_t at) {
            const T* const head = x + r * cols + column;
            if (dy) {
              sum[which] +=
                  static_cast<A>(d) * row_grad<zero_centered>(false, dy + r * cols + column, head,
                                                              weights[which] + at, A{0}, A{1}, d)
                                          .grad_direction;
            } else if (which == 0 || s.counts_keys) {
              sum[which] += static_cast<A>(d) * mean_square_of(head, A{0}, d);
            }
          },
          [](std::int64_t) {});
    }
  });
}

template <bool zero_centered, class T>
void norm_of_all_heads(const HeadNormShape& s, T* y, Acc<T>* rstd, const T* x,
                       const T* query_weight, const T* key_weight, const Acc<T>* sums) {
  using A = Acc<T>;
  const std::int64_t cols = s.qkv_cols(), d = s.head_dim;
  const T* const weights[] = {query_weight, key_weight};
  parallel_pieces(s.rows, row_ns<T>(s, 2), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const T* const from = x + r * cols;
      T* const to = y + r * cols;
      A scale[2] = {0, 0};
      const auto nothing = [](std::int64_t) {};
      if (!sums) {
        for_all_heads(
            s,
            [&](std::int64_t column, int which, std::int64_t) {
              scale[which] += mean_square_of(from + column, A{0}, d);
            },
            nothing);
      }
      for (const int which : {0, 1}) {
        const A mean = sums ? sums[r * 2 + which] / elements_of<A>(s, which)
                            : scale[which] / heads_of<A>(s, which);
        scale[which] = reciprocal_root(mean + static_cast<A>(s.eps));
        if (rstd) rstd[r * 2 + which] = scale[which];
      }
      for_all_heads(
          s,
          [&](std::int64_t column, int which, std::int64_t at) {
            normalize<zero_centered, T>(to + column, from + column, weights[which] + at, nullptr,
                                        A{0}, scale[which], d);
          },
          [&](std::int64_t column) {
            __builtin_memcpy(to + column, from + column, d * sizeof(T));
          });
    }
  });
}

// Gradient of one row; adds the weights' gradients to the two parts. For keys that ranks share,
// only their owner includes the gradient through the norm.
template <bool zero_centered, class T>
void grad_row_of_all_heads(const HeadNormShape& s, T* dx, const T* dy, const T* x,
                           const Acc<T>* rstd, const T* const* weights, const Acc<T>* sums,
                           Acc<T>* const* parts) {
  using A = Acc<T>;
  const std::int64_t d = s.head_dim;
  RowGrad<A> grad[2] = {{A{0}, rstd[0], A{0}, A{0}}, {A{0}, rstd[1], A{0}, A{0}}};
  if (sums) {
    for (const int which : {0, 1}) {
      const bool has = which == 0 || s.counts_keys;
      grad[which].grad_direction =
          has ? sums[which] * rstd[which] / elements_of<A>(s, which) : A{0};
    }
  } else {
    for_all_heads(
        s,
        [&](std::int64_t column, int which, std::int64_t at) {
          grad[which].grad_direction +=
              row_grad<zero_centered>(false, dy + column, x + column, weights[which] + at, A{0},
                                      rstd[which], d)
                  .grad_direction;
        },
        [](std::int64_t) {});
    for (const int which : {0, 1}) grad[which].grad_direction /= heads_of<A>(s, which);
  }
  for_all_heads(
      s,
      [&](std::int64_t column, int which, std::int64_t at) {
        apply_row_grad<zero_centered, T>(grad[which], dx + column, parts[which] + at, nullptr,
                                         dy + column, x + column, weights[which] + at, nullptr, d);
      },
      [&](std::int64_t column) { __builtin_memcpy(dx + column, dy + column, d * sizeof(T)); });
}

template <bool zero_centered, class T>
void norm_grad_of_all_heads(const HeadNormShape& s, const HeadNormGradOperands<T>& o) {
  using A = Acc<T>;
  const std::int64_t cols = s.qkv_cols(), chunks = row_chunks(s.rows);
  const std::int64_t widths[] = {s.query_weights(), s.key_weights()};
  A* const parts[] = {o.workspace, o.workspace + chunks * widths[0]};
  const T* const weights[] = {o.query_weight, o.key_weight};
  parallel_chunks(s.rows, rows_per_chunk(s.rows), row_ns<T>(s, 4),
                  [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
                    A* const own[] = {parts[0] + part * widths[0], parts[1] + part * widths[1]};
                    for (const int which : {0, 1})
                      __builtin_memset(own[which], 0, widths[which] * sizeof(A));
                    for (std::int64_t r = begin; r < end; ++r) {
                      grad_row_of_all_heads<zero_centered>(s, o.dx + r * cols, o.dy + r * cols,
                                                           o.x + r * cols, o.rstd + r * 2, weights,
                                                           o.sums ? o.sums + r * 2 : nullptr, own);
                    }
                  });
  combine_chunks(o.dquery_weight, o.accumulate, parts[0], chunks, widths[0]);
  combine_chunks(o.dkey_weight, o.accumulate, parts[1], chunks, widths[1]);
}

template <bool zero_centered, class T>
void norm_of_heads(const HeadNormShape& s, T* y, Acc<T>* rstd, const T* x, const T* query_weight,
                   const T* key_weight, const Acc<T>* sums) {
  using A = Acc<T>;
  if (s.all_heads)
    return norm_of_all_heads<zero_centered, T>(s, y, rstd, x, query_weight, key_weight, sums);
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
            normalize<zero_centered, T>(to + at, from + at, is_key ? key_weight : query_weight,
                                        nullptr, A{0}, scale, d);
          },
          [&](std::int64_t at) { __builtin_memcpy(to + at, from + at, d * sizeof(T)); });
    }
  });
}

template <bool zero_centered, class T>
void norm_grad_of_heads(const HeadNormShape& s, const HeadNormGradOperands<T>& o) {
  using A = Acc<T>;
  if (s.all_heads) return norm_grad_of_all_heads<zero_centered, T>(s, o);
  const std::int64_t cols = s.qkv_cols(), heads = s.normed_heads(), d = s.head_dim;
  const std::int64_t chunks = row_chunks(s.rows);
  A* const query_parts = o.workspace;
  A* const key_parts = o.workspace + chunks * d;
  parallel_chunks(
      s.rows, rows_per_chunk(s.rows), row_ns<T>(s, 4),
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
                const T* const weight = is_key ? o.key_weight : o.query_weight;
                const auto grad = row_grad<zero_centered>(false, o.dy + at, o.x + at, weight, A{0},
                                                          o.rstd[r * heads + index], d);
                apply_row_grad<zero_centered, T>(grad, o.dx + at, is_key ? dkey : dquery, nullptr,
                                                 o.dy + at, o.x + at, weight, nullptr, d);
              },
              [&](std::int64_t column) {
                __builtin_memcpy(o.dx + row + column, o.dy + row + column, d * sizeof(T));
              });
        }
      });
  if (o.dquery_weight) combine_chunks(o.dquery_weight, o.accumulate, query_parts, chunks, d);
  if (o.dkey_weight) combine_chunks(o.dkey_weight, o.accumulate, key_parts, chunks, d);
}

template <class T>
void head_norm(const HeadNormShape& s, T* y, Acc<T>* rstd, const T* x, const T* query_weight,
               const T* key_weight, const Acc<T>* sums) {
  const auto run = s.zero_centered ? norm_of_heads<true, T> : norm_of_heads<false, T>;
  run(s, y, rstd, x, query_weight, key_weight, sums);
}

template <class T>
void head_norm_grad(const HeadNormShape& s, const HeadNormGradOperands<T>& o) {
  const auto run = s.zero_centered ? norm_grad_of_heads<true, T> : norm_grad_of_heads<false, T>;
  run(s, o);
}

template <class T>
void head_sums(const HeadNormShape& s, Acc<T>* sums, const T* x, const T* dy, const T* query_weight,
               const T* key_weight) {
  const auto run = s.zero_centered ? sums_of<true, T> : sums_of<false, T>;
  run(s, sums, x, dy, query_weight, key_weight);
}

}  // namespace

template <class T>
void set_head_norm(Kernels<T>& table) {
  table.head_norm = at_once<head_norm<T>>;
  table.head_norm_grad = at_once<head_norm_grad<T>>;
  table.head_sums = at_once<head_sums<T>>;
}
TRIREME_INSTANTIATE(set_head_norm)

}  // namespace trireme::cpu::TRIREME_ISA
