// The rules of [offload].
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses what contradicts itself, and what states and activations in files do not go with.
void check_offload(const Config& config);

}  // namespace trireme
