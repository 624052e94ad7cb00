// Sums and optimiser states stored as bf16: computed in float and rounded stochastically, up or
// down with the probability that makes the expected value right. Rounding to nearest would lose
// every summand that is smaller than half of the sum's last bit.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace trireme {

// The key of the random bits of one array: a pure function of its arguments. `stream` and `use`
// tell arrays of one step apart.
std::uint64_t rounding_key(std::uint64_t seed, std::uint64_t step, std::uint32_t stream,
                           std::uint32_t use);

// Cuts the lower half of x off after adding random bits to it. Infinity and NaN are kept.
bf16 round_stochastically(float x, std::uint16_t bits);

void widen(float* to, const bf16* from, std::int64_t count);
// Element i is rounded with bits that depend on (key, first + i) alone, so that any cut of an array
// gives the same. `first` is a multiple of 4.
void narrow(bf16* to, const float* from, std::int64_t count, std::uint64_t key, std::int64_t first);
// sums[i] = summands[i], or sums[i] += summands[i], rounded likewise; `first` is 0.
void add_narrow(bf16* sums, const float* summands, std::int64_t count, std::uint64_t key,
                bool overwrite);

}  // namespace trireme
