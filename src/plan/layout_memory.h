// What the ranks of a layout need, without recording what they do.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/target.h"
#include "config/config.h"
#include "train/engine.h"

namespace trireme {

// Bytes of the rank that needs most, to the byte what plan_layout() says: its memory, and what it
// holds besides. Once a rank needs more than `limit`, the others are not looked at. `config` is
// valid for that many ranks and knows its vocabulary. `schedules`: as for plan_layout().
std::int64_t layout_memory(const Config& config, int ranks, const Target& target,
                           std::int64_t limit = INT64_MAX,
                           std::shared_ptr<PlannedSchedules> schedules = nullptr);

}  // namespace trireme
