// Rotary position embedding, in place in the qkv buffer.
#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/kernels/table.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

struct RopeHeads {
  std::int64_t groups, queries_per_group, group_cols, head_dim, half;
};

template <class T>
void rotate_head(T* head, const Acc<T>* cos, const Acc<T>* sin, Acc<T> sign, std::int64_t half) {
  for_vectors<lanes_of<T>>(half, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    const auto c = load(cos + i, n);
    const auto s = load(sin + i, n) * splat(sign);
    const auto first = load(head + i, n);
    const auto second = load(head + half + i, n);
    store(head + i, first * c - second * s, n);
    store(head + half + i, second * c + first * s, n);
  });
}

template <class T>
void rotate_row(T* row, const RopeHeads& heads, const Acc<T>* cos, const Acc<T>* sin, Acc<T> sign) {
  for (std::int64_t g = 0; g < heads.groups; ++g) {
    T* head = row + g * heads.group_cols;
    for (std::int64_t h = 0; h <= heads.queries_per_group; ++h, head += heads.head_dim) {
      rotate_head(head, cos, sin, sign, heads.half);
    }
  }
}

template <class T>
void multiply_queries(T* row, const RopeHeads& heads, Acc<T> factor) {
  const std::int64_t width = heads.queries_per_group * heads.head_dim;
  for (std::int64_t g = 0; g < heads.groups; ++g) {
    T* const queries = row + g * heads.group_cols;
    for_vectors<lanes_of<T>>(width, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
      store(queries + i, load(queries + i, n) * splat(factor), n);
    });
  }
}

template <class T>
void rope(T* qkv, const AttentionShape& shape, std::int64_t rotary_dim, const Acc<T>* cos,
          const Acc<T>* sin, const Acc<T>* query_factor, const std::int32_t* positions,
          int direction) {
  const std::int64_t per_group = shape.queries_per_group;
  const RopeHeads heads = {shape.groups, per_group, (per_group + 2) * shape.head_dim,
                           shape.head_dim, rotary_dim / 2};
  const std::int64_t cols = heads.groups * heads.group_cols;
  const std::int64_t seq = shape.seq;
  const Acc<T> sign = direction < 0 ? -1 : 1;
  const double row_ns = 0.3 * static_cast<double>(heads.groups * (per_group + 1) * rotary_dim);
  parallel_pieces(shape.batch * seq, row_ns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t position = positions ? positions[r] : r % seq, at = position * heads.half;
      if (heads.half > 0) rotate_row(qkv + r * cols, heads, cos + at, sin + at, sign);
      if (query_factor) multiply_queries(qkv + r * cols, heads, query_factor[position]);
    }
  });
}

}  // namespace

template <class T>
void set_rope(Kernels<T>& table) {
  table.rope = at_once<rope<T>>;
}
TRIREME_INSTANTIATE(set_rope)

}  // namespace trireme::cpu::TRIREME_ISA
