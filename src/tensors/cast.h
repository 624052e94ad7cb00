// Conversion of elements between floating-point types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/dtype.h"

namespace trireme {

// Whether cast() can convert: both are floating-point types, or they are the same.
bool can_cast(DType from, DType to);

// Converts `count` elements; rounds to nearest even where `to` is narrower. No overlap.
void cast(DType from, const std::byte* src, DType to, std::byte* dst, std::int64_t count);

// Elements that are read in pieces: [begin, end) to dst.
struct ElementSource {
  DType dtype;
  std::function<void(std::int64_t begin, std::int64_t end, std::byte* dst)> read;
};

// Whether `count` elements are those of `exact`, cast to their type; false for types that cannot be
// cast. Pieces begin at multiples of `unit`.
bool same_when_cast(const ElementSource& elements, const ElementSource& exact, std::int64_t count,
                    std::int64_t unit = 1);

}  // namespace trireme
