// Soft-capped attention, backward.
#include "backend/gpu/kernels/attention_backward.h"

namespace trireme::gpu {

template <class T>
void run_capped_backward(Queue& queue, const Attention<T>& a, const Gradients<T>& g) {
  launch_backward<true>(queue, a, g);
}
template void run_capped_backward(Queue&, const Attention<float>&, const Gradients<float>&);
template void run_capped_backward(Queue&, const Attention<bf16>&, const Gradients<bf16>&);
template void run_capped_backward(Queue&, const Attention<f16>&, const Gradients<f16>&);

}  // namespace trireme::gpu
