// RMSNorm over all query heads of a row, and over all its key heads; of this rank, or of several
// together by way of sums.
#pragma once

#include <cstdint>

#include "backend/device.h"
#include "backend/gpu/kernels/head_norm.h"

namespace trireme::gpu {

// With a.sums those of all ranks are read.
template <class T>
void all_heads_norm(Queue&, const HeadNormArguments<T>&);
// Writes a.sums: of dy where there is one.
template <class T>
void all_heads_sums(Queue&, const HeadNormArguments<T>&);
// Each of `chunks` chunks of rows leaves its part of the gradients of the weights.
template <class T>
void all_heads_norm_grad(Queue&, const HeadNormArguments<T>&, std::int64_t chunks);

}  // namespace trireme::gpu
