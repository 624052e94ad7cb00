// Validity of a configuration as a run, shared by all commands that plan, write or start
// one.
#pragma once

#include <cstdint>

#include "config/config.h"

namespace trireme {

// Refuses (exit code 2) contradictions and layouts that do not fit this many ranks: all rules that
// depend only on the configuration.
void check_run(const Config& config, std::int64_t world_size);

}  // namespace trireme
