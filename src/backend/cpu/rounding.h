// Stochastic rounding to bf16: the random bits of an array, and one number rounded with them.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace trireme::cpu {

// The key of the random bits of one array: a pure function of its arguments.
std::uint64_t rounding_key(std::uint64_t seed, std::uint64_t counter, std::uint32_t stream,
                           std::uint32_t use);

// Cuts the lower half of x off after adding random bits to it. Infinity and NaN are kept.
bf16 round_stochastically(float x, std::uint16_t bits);

}  // namespace trireme::cpu
