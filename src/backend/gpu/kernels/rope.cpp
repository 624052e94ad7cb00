// Rotary position embedding, in place in the qkv buffer.
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

struct RopeShape {
  std::int64_t seq, row_cols, group_cols, head_dim, half;
  int groups, rotated_per_group;
  float sign;
  bool aligned, aligned_heads;
};

// One block per row; a thread rotates eight pairs of a head at a time.
template <class T>
GPU_KERNEL(128)
rope_kernel(T* qkv, const RopeShape s, const float* cos, const float* sin,
            const std::int32_t* positions) {
  const std::int64_t row = block_index().x;
  const std::int64_t position = positions ? positions[row] : row % s.seq;
  const int eights = static_cast<int>((s.half + 7) / 8);
  const int count = s.groups * s.rotated_per_group * eights;
  for (int i = static_cast<int>(thread_index()); i < count; i += static_cast<int>(block_size())) {
    const int head = i / eights, group = head / s.rotated_per_group;
    T* const first = qkv + row * s.row_cols + group * s.group_cols +
                     (head - group * s.rotated_per_group) * s.head_dim;
    const Columns at = columns_at(8 * (i - head * eights), s.half, s.aligned);
    const Eight c = load(cos + position * s.half, at), turn = load(sin + position * s.half, at);
    Eight a = load(first, at), b = load(first + s.half, at);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float x = a.v[j], y = b.v[j], sine = turn.v[j] * s.sign;
      a.v[j] = x * c.v[j] - y * sine;
      b.v[j] = y * c.v[j] + x * sine;
    }
    store(first, at, a);
    store(first + s.half, at, b);
  }
}

// One block per row; a thread multiplies eight elements of a query at a time.
template <class T>
GPU_KERNEL(128)
query_factor_kernel(T* qkv, const RopeShape s, const float* factors,
                    const std::int32_t* positions) {
  const std::int64_t row = block_index().x;
  const float factor = factors[positions ? positions[row] : row % s.seq];
  const int eights = static_cast<int>((s.head_dim + 7) / 8), queries = s.rotated_per_group - 1;
  const int count = s.groups * queries * eights;
  for (int i = static_cast<int>(thread_index()); i < count; i += static_cast<int>(block_size())) {
    const int head = i / eights, group = head / queries;
    T* const query =
        qkv + row * s.row_cols + group * s.group_cols + (head - group * queries) * s.head_dim;
    const Columns at = columns_at(8 * (i - head * eights), s.head_dim, s.aligned_heads);
    store(query, at, each([=](float v) { return v * factor; }, load(query, at)));
  }
}

template <class T>
void rope(Queue& queue, T* qkv, const AttentionShape& shape, std::int64_t rotary_dim,
          const float* cos, const float* sin, const float* query_factor,
          const std::int32_t* positions, int direction) {
  const std::int64_t half = rotary_dim / 2;
  const RopeShape s{
      .seq = shape.seq,
      .row_cols = shape.qkv_cols(),
      .group_cols = (shape.queries_per_group + 2) * shape.head_dim,
      .head_dim = shape.head_dim,
      .half = half,
      .groups = static_cast<int>(shape.groups),
      .rotated_per_group = static_cast<int>(shape.queries_per_group + 1),
      .sign = direction < 0 ? -1.0f : 1.0f,
      .aligned = rows_are_aligned(shape.head_dim, qkv) && rows_are_aligned(half, qkv, cos, sin),
      .aligned_heads = rows_are_aligned(shape.head_dim, qkv)};
  const auto blocks = one_block_each(shape.batch * shape.seq, 128);
  if (half > 0) launch(queue, blocks, rope_kernel<T>, qkv, s, cos, sin, positions);
  if (query_factor) launch(queue, blocks, query_factor_kernel<T>, qkv, s, query_factor, positions);
}

}  // namespace

template <class T>
void set_rope(Kernels<T>& table) {
  table.rope = rope<T>;
}
TRIREME_GPU_INSTANTIATE(set_rope);

}  // namespace trireme::gpu
