// Soft-capped attention, forward, in a separate file because its kernels compile for minutes.
#include "backend/gpu/kernels/attention_forward.h"

namespace trireme::gpu {

template <class T>
void run_capped_forward(Queue& queue, const Attention<T>& a, T* ctx, float* lse) {
  launch_forward<Form::capped>(queue, a, ctx, lse);
}
template void run_capped_forward(Queue&, const Attention<bf16>&, bf16*, float*);
template void run_capped_forward(Queue&, const Attention<f16>&, f16*, float*);

}  // namespace trireme::gpu
