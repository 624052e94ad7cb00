// The products of linear layers and of experts by the own tile product.
#pragma once

#include <memory>

#include "backend/device.h"

namespace trireme::gpu {

std::shared_ptr<const LinearProduct> own_linear(DType compute, Product, const LinearShape&);
std::shared_ptr<const GroupedProduct> own_grouped(DType compute, Product, const GroupedShape&);

// c [m, n] = a b^T, where a is [m, k] and b [n, k].
template <class T>
void multiply_to_float(Queue&, float* c, const T* a, const T* b, std::int64_t m, std::int64_t n,
                       std::int64_t k);

}  // namespace trireme::gpu
