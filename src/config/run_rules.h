// Whether a configuration is a valid run: the one question of all commands that plan, write or
// start one.
#pragma once

#include <cstdint>

#include "config/config.h"

namespace trireme {

// Refuses (exit code 2) what contradicts itself, or cannot run on this many ranks: all rules that
// follow from the configuration alone.
void check_run(const Config& config, std::int64_t world_size);

}  // namespace trireme
