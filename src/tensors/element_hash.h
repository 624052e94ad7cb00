// Hash of tensors that is independent of how elements are split across ranks: the sum over all
// elements of a mix of tensor, index and bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace trireme {

// Start of a tensor's element indices in the mix.
std::uint64_t element_key(std::string_view tensor);

// Partial sum modulo 2^64 for `count` elements from index `first` on. Elements are hashed by their
// bits; a change of a single element always changes the sum.
std::uint64_t element_hash(std::uint64_t key, std::int64_t first, DType dtype,
                           const std::byte* elements, std::int64_t count);

}  // namespace trireme
