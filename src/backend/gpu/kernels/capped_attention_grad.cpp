// Soft-capped attention, backward.
#include "backend/gpu/kernels/attention_keys.h"
#include "backend/gpu/kernels/attention_queries.h"

namespace trireme::gpu {

template <class T>
void run_capped_backward(Queue& queue, const Attention<T>& a, const Gradients<T>& g) {
  launch_keys<Form::capped>(queue, a, g);
  launch_queries<Form::capped>(queue, a, g);
}
template void run_capped_backward(Queue&, const Attention<bf16>&, const Gradients<bf16>&);
template void run_capped_backward(Queue&, const Attention<f16>&, const Gradients<f16>&);

}  // namespace trireme::gpu
