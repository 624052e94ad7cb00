// Second stage of reductions over rows: adds the chunks' partial sums in order.
#pragma once

#include <cstdint>
#include <span>

#include "backend/device.h"

namespace trireme::gpu {

inline constexpr int most_sums = 4;

// For each of up to most_sums destinations, dst[c] (+)= sum of parts[i][c] over the `chunks` rows i
// of `cols`, in a fixed order. The parts of one follow those of the one before; a null destination
// has none.
void add_parts(Queue&, std::span<float* const> dst, bool accumulate, const float* parts,
               std::int64_t chunks, std::int64_t cols);
inline void add_parts(Queue& queue, float* dst, bool accumulate, const float* parts,
                      std::int64_t chunks, std::int64_t cols) {
  add_parts(queue, std::span<float* const>(&dst, 1), accumulate, parts, chunks, cols);
}

}  // namespace trireme::gpu
