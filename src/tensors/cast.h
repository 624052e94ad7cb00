// Conversion between floating-point element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/dtype.h"

namespace trireme {

// Whether cast() supports the conversion: both types are floating-point, or equal.
bool can_cast(DType from, DType to);

// Converts `count` elements; narrowing rounds to nearest even. Buffers must not overlap.
void cast(DType from, const std::byte* src, DType to, std::byte* dst, std::int64_t count);

// Elements that are read piecewise: [begin, end) into dst.
struct ElementSource {
  DType dtype;
  std::function<void(std::int64_t begin, std::int64_t end, std::byte* dst)> read;
};

// Whether `count` elements equal those of `exact` cast to their type; false for types that cannot
// be cast. Pieces begin at multiples of `unit`.
bool same_when_cast(const ElementSource& elements, const ElementSource& exact, std::int64_t count,
                    std::int64_t unit = 1);

}  // namespace trireme
