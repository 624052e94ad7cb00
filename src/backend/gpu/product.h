// Products of linear layers and of experts with the built-in tile kernels.
#pragma once

#include <memory>

#include "backend/device.h"

namespace trireme::gpu {

std::shared_ptr<const LinearProduct> own_linear(DType compute, Product, const LinearShape&);
// The same with results in float.
std::shared_ptr<const LinearProduct> own_sums(DType compute, Product, const LinearShape&);
std::shared_ptr<const GroupedProduct> own_grouped(DType compute, Product, const GroupedShape&);

// c [m, n] = a b^T, with a [m, k] and b [n, k].
template <class T>
void multiply_to_float(Queue&, float* c, const T* a, const T* b, std::int64_t m, std::int64_t n,
                       std::int64_t k);

}  // namespace trireme::gpu
