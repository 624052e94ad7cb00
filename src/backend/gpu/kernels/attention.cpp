// Attention, forward.
#include "backend/gpu/kernels/attention_forward.h"
#include "backend/gpu/kernels/table.h"

namespace trireme::gpu {

template <class T>
void run_forward(Queue& queue, const Attention<T>& a, T* ctx, float* lse) {
  with_padded_head_dim(a.head_dim, [&]<int d>() {
    using Sizes = ForwardSizes<T, d>;
    const std::int64_t blocks =
        std::int64_t{a.batch} * a.groups * a.queries_per_group * ceil_div(a.queries, Sizes::rows);
    launch(queue,
           {.blocks = Size{static_cast<unsigned>(blocks)},
            .threads = Sizes::Waves::threads,
            .shared_bytes = Sizes::shared_bytes},
           forward_kernel<T, d>, a, ctx, lse);
  });
}
template void run_forward(Queue&, const Attention<float>&, float*, float*);
template void run_forward(Queue&, const Attention<bf16>&, bf16*, float*);
template void run_forward(Queue&, const Attention<f16>&, f16*, float*);

namespace {

template <class T>
void attention(Queue& queue, const AttentionShape& shape, T* ctx, float* lse, const T* qkv, void*) {
  run_forward(queue, attention_of(shape, qkv), ctx, lse);
}

}  // namespace

template <class T>
void set_attention(Kernels<T>& table) {
  table.attention = attention<T>;
}
TRIREME_GPU_INSTANTIATE(set_attention);

}  // namespace trireme::gpu
