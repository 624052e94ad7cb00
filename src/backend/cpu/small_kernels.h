// Kernels of a few rows, compiled once for all instruction sets: nothing here is worth vectors.
#pragma once

#include "backend/cpu/kernels.h"

namespace trireme::cpu {

// As in Kernels<T>.
template <class T>
void take_rows(T* y, const T* x, const std::int32_t* numbers, std::int64_t taken,
               std::int64_t columns, std::int64_t source_rows);
template <class T>
void take_rows_grad(T* dx, const T* dy, const std::int32_t* numbers, std::int64_t taken,
                    std::int64_t columns, std::int64_t source_rows);
template <class A>
void softmax_rescale(A* sums, const A* sum, const A* target_logit, const A* local_largest,
                     const A* largest, std::int64_t rows);
template <class A>
void token_loss(A* loss, A* lse, const A* largest, const A* sum, const A* target_logit,
                std::int64_t rows);

}  // namespace trireme::cpu
