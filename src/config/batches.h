// Checks of batch sizes and of the length of a run.
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses contradictory sizes, and micro-batches too large to index or hold in memory.
void check_batches(const Config& config);

}  // namespace trireme
