// Conversion between 16-bit storage and float, for products that are computed in float.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace trireme::cpu {

// dst[rows, cols] = src[rows, cols]; ld_dst and ld_src are the elements between rows.
template <class T>
void widen(float* dst, std::int64_t ld_dst, const T* src, std::int64_t rows, std::int64_t cols,
           std::int64_t ld_src);

// dst (+)= src + bias; src is dense, bias may be null, sums are float.
template <class T>
void narrow(T* dst, const float* src, std::int64_t rows, std::int64_t cols, std::int64_t ld_dst,
            const T* bias, bool accumulate);

}  // namespace trireme::cpu
