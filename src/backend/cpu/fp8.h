// Rounding to fp8 on the CPU, which has no fp8 products: rounded numbers stay in the type of
// arithmetic, and products of that type read them. The bytes are a reference for GPUs.
#pragma once

#include "backend/kernels.h"

namespace trireme::cpu {

// See Kernels<T>; Y is Acc<T>, or T itself.
template <class T>
void fp8_largest(const Fp8Tiles&, float* largest, const T* x);
template <class T, class Y>
void fp8_round(const Fp8Tiles&, const float* largest, Y* y, const T* x);
template <class T>
void fp8_bytes(const Fp8Tiles&, const float* largest, std::uint8_t* y, const T* x,
               std::int64_t chunk);
void fp8_inverse_scales(const Fp8Tiles&, const float* largest, float* y, std::int64_t chunk,
                        std::int64_t ld);
template <class T>
void store_sums(T* y, const Acc<T>* x, const T* bias, std::int64_t rows, std::int64_t cols);

}  // namespace trireme::cpu
