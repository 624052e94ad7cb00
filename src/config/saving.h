// Checks of checkpoint settings: saving, export and rollback.
#pragma once

#include "config/config.h"

namespace trireme {

// Refuses contradictions and settings that would delete checkpoints still needed.
void check_saving(const Config& config);

}  // namespace trireme
