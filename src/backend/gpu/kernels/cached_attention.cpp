// Attention of new positions against a KV cache.
#include "backend/gpu/kernels/attention.h"
#include "backend/gpu/kernels/few_queries.h"
#include "backend/gpu/kernels/table.h"

namespace trireme::gpu {
namespace {

template <class T>
Attention<T> attention_of(const CachedAttentionShape& s, const T* qkv, const T* key_cache,
                          const T* value_cache, const std::int32_t* lengths) {
  Attention<T> a = gpu::attention_of(AttentionShape{s}, qkv);
  a.rule.causal = true;
  a.k = key_cache;
  a.v = value_cache;
  a.kv_group = s.head_dim;
  a.kv_pitch = s.groups * s.head_dim;
  a.kv_sample = s.capacity * a.kv_pitch;
  a.cached = true;
  a.lengths = lengths;
  a.in_packs = a.in_packs && lies_in_packs(key_cache, a.kv_pitch, s.head_dim) &&
               lies_in_packs(value_cache, a.kv_pitch, s.head_dim);
  return a;
}

// Copies element `column` of new row `row`: keys first, then values.
template <class T>
GPU_KERNEL(256)
append_kernel(const CachedAttentionShape s, const T* qkv, T* key_cache, T* value_cache,
              const std::int32_t* lengths) {
  const std::int64_t columns = s.groups * s.head_dim;
  for_each(s.batch * s.seq * columns * 2, [=](std::int64_t i) {
    const std::int64_t within = i % s.head_dim, group = i / s.head_dim % s.groups;
    const bool is_value = i / columns % 2;
    const std::int64_t row = i / (2 * columns), sample = row / s.seq;
    const std::int64_t position = lengths[sample] + row % s.seq;
    const std::int64_t from = ((row * s.groups + group) * (s.queries_per_group + 2) +
                               s.queries_per_group + (is_value ? 1 : 0)) *
                              s.head_dim;
    (is_value
         ? value_cache
         : key_cache)[(sample * s.capacity + position) * columns + group * s.head_dim + within] =
        qkv[from + within];
  });
}

template <class T>
void cached_attention(Queue& queue, const CachedAttentionShape& shape, T* ctx, float* lse,
                      const T* qkv, T* key_cache, T* value_cache, const std::int32_t* lengths,
                      float* workspace) {
  launch(queue, over(shape.batch * shape.seq * shape.groups * shape.head_dim * 2), append_kernel<T>,
         shape, qkv, key_cache, value_cache, lengths);
  const Attention<T> attention = attention_of(shape, qkv, key_cache, value_cache, lengths);
  if (has_few_queries(shape)) {
    run_few_queries(queue, attention, ctx, lse, workspace, splits_of(shape));
  } else {
    run_forward(queue, attention, ctx, lse);
  }
}

}  // namespace

template <class T>
void set_cached_attention(Kernels<T>& table) {
  table.cached_attention = cached_attention<T>;
}
TRIREME_GPU_INSTANTIATE(set_cached_attention);

}  // namespace trireme::gpu
