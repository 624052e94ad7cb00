// RMSNorm over all query heads of a row, and over all its key heads, either local or, with given
// sums, across the ranks that share the heads.
#pragma once

#include <cstdint>

#include "backend/device.h"
#include "backend/gpu/kernels/head_norm.h"

namespace trireme::gpu {

// Uses a.sums, reduced over all ranks, if given.
template <class T>
void all_heads_norm(Queue&, const HeadNormArguments<T>&);
// Writes a.sums: those for dy if it is given.
template <class T>
void all_heads_sums(Queue&, const HeadNormArguments<T>&);
// Each of `chunks` chunks of rows writes its partial gradients of the weights.
template <class T>
void all_heads_norm_grad(Queue&, const HeadNormArguments<T>&, std::int64_t chunks);

}  // namespace trireme::gpu
