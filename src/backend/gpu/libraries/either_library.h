// Two libraries of matrix products as one: what the first has no algorithm for is the second's.
#pragma once

#include <memory>

#include "backend/gpu/libraries/library.h"

namespace trireme::gpu {

// Either may be null; then it is the other.
std::unique_ptr<ProductLibrary> either_library(std::unique_ptr<ProductLibrary> first,
                                               std::unique_ptr<ProductLibrary> second);

}  // namespace trireme::gpu
