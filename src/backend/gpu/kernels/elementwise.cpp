// Sums of two tensors with dropout, and the cast of master weights.
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {
namespace {

template <class T>
GPU_KERNEL(256)
cast_kernel(T* dst, const float* src, std::int64_t count) {
  for_each(count, [=](std::int64_t i) { dst[i] = from_float<T>(src[i]); });
}

template <class T>
void cast_from_master(Queue& queue, T* dst, const float* src, std::int64_t count) {
  launch(queue, over(count), cast_kernel<T>, dst, src, count);
}

}  // namespace

template <class T>
void set_elementwise(Kernels<T>& table) {
  table.cast_from_master = cast_from_master<T>;
}
TRIREME_GPU_INSTANTIATE(set_elementwise);

}  // namespace trireme::gpu
