// Kernels of a few rows, compiled once for all instruction sets: not worth vectorizing.
#pragma once

#include "backend/cpu/kernels.h"

namespace trireme::cpu {

// See Kernels<T>.
template <class T>
void gather(T* y, const T* x, const std::int32_t* numbers, std::int64_t taken, std::int64_t columns,
            std::int64_t source_rows);
template <class T>
void gather_grad(T* dx, const T* dy, const std::int32_t* numbers, std::int64_t taken,
                 std::int64_t columns, std::int64_t source_rows);
template <class T>
void copy_blocks(T* dst, const T* src, const BlockCopy& copy);
template <class T>
void sum_blocks(T* dst, const T* src, const BlockCopy& copy);
template <class T>
void add_group_bias(const GroupBiasShape& s, T* y, const T* bias, const std::int32_t* offsets);
template <class T>
void group_bias_grad(const GroupBiasShape& s, Acc<T>* dbias, bool accumulate, const T* dy,
                     const std::int32_t* offsets);
template <class A>
void softmax_rescale(A* sums, const A* sum, const A* target_logit, const A* local_largest,
                     const A* largest, std::int64_t rows);
template <class A>
void token_loss(A* loss, A* lse, const A* largest, const A* sum, const A* target_logit,
                std::int64_t rows);

template <class A>
void add_losses(ExactSum* total, ExactSum* total_weight, const A* losses, const float* weights,
                std::int64_t count);

// add_squares of Kernels<T>, given the sum of squares of one block.
template <class A>
void add_squares_in_blocks(double (*sum_of_squares)(const A*, std::int64_t), ExactSum* total,
                           const A* x, std::int64_t count, std::int64_t block);

}  // namespace trireme::cpu
