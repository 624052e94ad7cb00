// The rules of checkpoints: what is saved, exported and gone back to.
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses what contradicts itself, or would remove what is still needed.
void check_saving(const Config& config);

}  // namespace trireme
