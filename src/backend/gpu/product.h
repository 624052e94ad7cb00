// The products of linear layers by the own tile product.
#pragma once

#include <memory>

#include "backend/device.h"

namespace trireme::gpu {

std::shared_ptr<const LinearProduct> own_linear(DType compute, Product, const LinearShape&);

}  // namespace trireme::gpu
