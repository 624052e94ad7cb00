// The rules of batches and of the length of a run.
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses sizes that contradict each other, and micro-batches that nothing can count or hold.
void check_batches(const Config& config);

}  // namespace trireme
