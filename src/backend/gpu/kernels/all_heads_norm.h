// RMSNorm over all query heads of a row, and over all its key heads.
#pragma once

#include <cstdint>

#include "backend/device.h"
#include "backend/gpu/kernels/head_norm.h"

namespace trireme::gpu {

template <class T>
void all_heads_norm(Queue&, const HeadNormArguments<T>&);
// Each of `chunks` chunks of rows leaves its part of the gradients of the weights.
template <class T>
void all_heads_norm_grad(Queue&, const HeadNormArguments<T>&, std::int64_t chunks);

}  // namespace trireme::gpu
