// View of a context-parallel rank's chunks of its sequences, for the attention kernels.
#pragma once

#include "backend/cpu/kernels/attention_groups.h"
#include "base/error.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// A group of a sample, and one of the rank's chunks of the sample, numbered chunk by chunk.
struct ChunkPlace {
  std::int64_t sample, group, half;

  ChunkPlace(const AttentionShape& s, std::int64_t index)
      : sample(index / (2 * s.groups)), group(index / 2 % s.groups), half(index % 2) {}
};

[[maybe_unused]] std::int64_t chunk_places(const AttentionShape& s) {
  return s.batch * s.groups * 2;
}

// First row of a chunk in the rank's buffers.
std::int64_t first_row(const AttentionShape& s, const ChunkPlace& at) {
  return (2 * at.sample + at.half) * s.cut.chunk;
}

// Restricts the view of a whole sequence to the queries of one chunk.
template <class T>
GroupView<T> chunk_of(GroupView<T> view, const AttentionShape& s, std::int64_t half) {
  const std::int64_t first = s.cut.first[half];
  view.q.data = view.q.row(first);
  if (view.first_visible) view.first_visible += first;
  view.queries = s.cut.chunk;
  view.first_query = first;
  return view;
}

template <class T>
GroupView<T> view_of_chunk(const AttentionShape& s, const T* qkv, const T* kv,
                           const ChunkPlace& at) {
  GroupView<T> view = chunk_of(view_of(s, qkv, at.sample, at.group), s, at.half);
  view.q = {qkv + first_row(s, at) * s.qkv_cols() + group_column(s, at.group), s.qkv_cols()};
  const std::int64_t columns = s.groups * 2 * s.head_dim;
  view.k = {kv + at.sample * s.seq * columns + at.group * 2 * s.head_dim, columns};
  view.v = view.k.right_by(s.head_dim);
  return view;
}

// Rows of one chunk in a buffer with the shape of the rank's ctx.
template <class T>
Rows<T> ctx_of_chunk(T* ctx, const AttentionShape& s, const ChunkPlace& at) {
  return {ctx + first_row(s, at) * s.ctx_cols() + at.group * s.queries_per_group * s.head_dim,
          s.ctx_cols()};
}

[[maybe_unused]] void check_chunks(const AttentionShape& s) {
  TRIREME_CHECK(s.head_dim >= 1 && s.head_dim <= max_head_dim && s.scale > 0);
  TRIREME_CHECK(s.causal && !s.lengths && s.cut.chunk > 0);
}

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
