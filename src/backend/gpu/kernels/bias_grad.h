// Gradient of a bias, for kernels that make it after another one.
#pragma once

#include "backend/device.h"

namespace trireme::gpu {

// See Kernels<T>::bias_grad.
template <class T>
void bias_grad(Queue&, float* dbias, bool accumulate, const T* dy, std::int64_t rows,
               std::int64_t cols, float* workspace);

}  // namespace trireme::gpu
