// Conversion of elements between floating-point types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace trireme {

// Whether cast() can convert: both are floating-point types, or they are the same.
bool can_cast(DType from, DType to);

// Converts `count` elements; rounds to nearest even where `to` is narrower. No overlap.
void cast(DType from, const std::byte* src, DType to, std::byte* dst, std::int64_t count);

}  // namespace trireme
