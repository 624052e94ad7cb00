// Attention forward, including context parallelism.
#include "backend/gpu/kernels/attention_forward.h"
#include "backend/gpu/kernels/table.h"

namespace trireme::gpu {

template <class T>
void run_forward(Queue& queue, const Attention<T>& a, T* ctx, float* lse) {
  if constexpr (!std::is_same_v<T, float>) {
    if (a.head_dim > largest_plain_head_dim)
      return a.is_dense() ? launch_forward<Form::dense>(queue, a, ctx, lse)
             : a.cap > 0  ? run_capped_forward(queue, a, ctx, lse)
                          : launch_forward<Form::general>(queue, a, ctx, lse);
  }
  run_plain_forward(queue, a, ctx, lse);
}
template void run_forward(Queue&, const Attention<float>&, float*, float*);
template void run_forward(Queue&, const Attention<bf16>&, bf16*, float*);
template void run_forward(Queue&, const Attention<f16>&, f16*, float*);

namespace {

template <class T>
void attention(Queue& queue, const AttentionShape& shape, T* ctx, float* lse, const T* qkv, void*) {
  run_forward(queue, attention_of(shape, qkv), ctx, lse);
}

// A query's bits do not depend on its block's start: they equal those of
// attention over whole sequences.
template <class T>
void context_attention(Queue& queue, const AttentionShape& shape, T* ctx, float* lse, const T* qkv,
                       const T* kv) {
  Attention<T> a = chunks_of(shape, qkv);
  a.k = kv;
  a.v = kv + shape.head_dim;
  a.kv_group = 2 * shape.head_dim;
  a.kv_pitch = shape.groups * a.kv_group;
  a.kv_sample = shape.seq * a.kv_pitch;
  a.in_packs = a.in_packs && lies_in_packs(kv, a.kv_pitch, shape.head_dim);
  run_forward(queue, a, ctx, lse);
}

}  // namespace

template <class T>
void set_attention(Kernels<T>& table) {
  table.attention = attention<T>;
  table.context_attention = context_attention<T>;
}
TRIREME_GPU_INSTANTIATE(set_attention);

}  // namespace trireme::gpu
