// Combines two GEMM libraries: the second computes what the first has no algorithm for.
#pragma once

#include <memory>

#include "backend/gpu/libraries/library.h"

namespace trireme::gpu {

// Either may be null; the result is then the other one.
std::unique_ptr<ProductLibrary> either_library(std::unique_ptr<ProductLibrary> first,
                                               std::unique_ptr<ProductLibrary> second);

}  // namespace trireme::gpu
