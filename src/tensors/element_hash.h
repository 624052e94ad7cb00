// A hash of tensors that does not know in which pieces their elements lie: the sum over all
// elements of a mix of tensor, place and bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace trireme {

// Where the places of a tensor's elements begin in the mix.
std::uint64_t element_key(std::string_view tensor);

// The part of the sum for `count` elements from place `first` on, modulo 2^64. Elements of a type
// are hashed by their bits; another value of a single element always gives another sum.
std::uint64_t element_hash(std::uint64_t key, std::int64_t first, DType dtype,
                           const std::byte* elements, std::int64_t count);

}  // namespace trireme
