// Second stage of reductions over rows: adds the chunks' partial sums in order.
#pragma once

#include <cstdint>

#include "backend/device.h"

namespace trireme::gpu {

// dst[c] (+)= sum of parts[i][c] over the `chunks` rows i of `cols`, in a fixed order.
void add_parts(Queue&, float* dst, bool accumulate, const float* parts, std::int64_t chunks,
               std::int64_t cols);

}  // namespace trireme::gpu
