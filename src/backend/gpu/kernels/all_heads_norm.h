// RMSNorm over all query heads of a row, and over all its key heads.
#pragma once

#include "backend/kernels.h"

namespace trireme::gpu {

// As head_norm and head_norm_grad of a table, for a shape with all_heads.
template <class T>
void all_heads_norm(Queue&, const HeadNormShape&, T* y, float* rstd, const T* x,
                    const T* query_weight, const T* key_weight);
template <class T>
void all_heads_norm_grad(Queue&, const HeadNormShape&, T* dx, float* dquery_weight,
                         float* dkey_weight, bool accumulate, const T* dy, const T* x,
                         const float* rstd, const T* query_weight, const T* key_weight,
                         float* workspace);

}  // namespace trireme::gpu
