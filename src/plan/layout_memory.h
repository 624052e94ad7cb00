// Memory of the ranks of a layout, computed without recording a step.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/target.h"
#include "plan/layout_space.h"
#include "train/engine/engine.h"

namespace trireme {

struct LayoutMemory {
  // Bytes of the rank that needs most, exactly as in plan_layout(): planned memory, plus the
  // estimate of its other memory.
  std::int64_t needed = 0;
  // Maximum over nodes of the bytes that the ranks of a GPU node keep in host memory.
  std::int64_t on_host = 0;

  // Whether it fits into `room`, a rank's memory, and into the node's host memory, if known.
  bool fits(std::int64_t room, std::int64_t host) const {
    return needed <= room && (host == 0 || on_host <= host);
  }
};

// Stops as soon as a rank needs more than `limit`; on_host is then 0. `config` must be valid for
// that many ranks, with known vocabulary. `schedules`: as for plan_layout().
LayoutMemory layout_memory(const Config& config, const RankSet& set, const Target& target,
                           std::int64_t limit = INT64_MAX,
                           std::shared_ptr<PlannedSchedules> schedules = nullptr);

}  // namespace trireme
