// Arguments of the query and key norm kernels.
#pragma once

#include <cstdint>

#include "backend/gpu/kernels/eight.h"
#include "backend/kernels.h"

namespace trireme::gpu {

template <class T>
struct HeadNormArguments {
  T* to;  // y or dx
  const T *x, *dy;
  float* rstd;  // [rows, norms]; written by the forward pass if not null
  const T *query_weight, *key_weight;
  std::int64_t rows;
  int groups, queries_per_group, head_dim;
  float eps, one;                  // one: offset added to a weight, 0 or 1
  bool aligned, aligned_parts;     // alignment of the tensors' heads, and of the parts
  std::int64_t chunk_rows;         // backward pass only
  float *query_parts, *key_parts;  // [chunks, weight widths]
  // Sums [rows, 2] of norms over heads shared by ranks: output, or input reduced over the ranks.
  float* sums;
  bool counts_keys;
  float all_queries, all_keys;  // elements per all-heads norm

  HeadNormArguments(const HeadNormShape& s, T* out, const T* in, const T* out_grad,
                    const T* of_queries, const T* of_keys)
      : to(out),
        x(in),
        dy(out_grad),
        rstd(nullptr),
        query_weight(of_queries),
        key_weight(of_keys),
        rows(s.rows),
        groups(static_cast<int>(s.groups)),
        queries_per_group(static_cast<int>(s.queries_per_group)),
        head_dim(static_cast<int>(s.head_dim)),
        eps(static_cast<float>(s.eps)),
        one(s.zero_centered ? 1.0f : 0.0f),
        aligned(rows_are_aligned(s.head_dim, out, in, out_grad, of_queries, of_keys)),
        aligned_parts(false),
        chunk_rows(0),
        query_parts(nullptr),
        key_parts(nullptr),
        sums(nullptr),
        counts_keys(s.counts_keys),
        all_queries(static_cast<float>(s.heads_together(false) * s.head_dim)),
        all_keys(static_cast<float>(s.heads_together(true) * s.head_dim)) {}

  // Number of heads per group and per row, values included.
  GPU_FN int in_group() const { return queries_per_group + 2; }
  GPU_FN int heads() const { return groups * in_group(); }
};

// One head of a row.
template <class T>
struct HeadPlace {
  int group, number;  // index within the group
  bool is_key, is_value;
  const T* weight;  // for its kind of head; values have none

  GPU_FN HeadPlace(const HeadNormArguments<T>& a, int head)
      : group(head / a.in_group()),
        number(head - group * a.in_group()),
        is_key(number == a.queries_per_group),
        is_value(number > a.queries_per_group),
        weight(is_key ? a.key_weight : a.query_weight) {}
};

}  // namespace trireme::gpu
