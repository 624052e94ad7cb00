// Memory of the ranks of a layout, without recording what they do.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/target.h"
#include "plan/layout_space.h"
#include "train/engine.h"

namespace trireme {

struct LayoutMemory {
  // Bytes of the rank that needs most, to the byte those of plan_layout(): its memory, and what it
  // holds in addition.
  std::int64_t needed = 0;
  // Bytes that the ranks of the fullest node of GPUs keep in the memory of their host, at most.
  std::int64_t on_host = 0;

  // Whether it fits into `room` of a rank's memory, and of a node's host if that is known.
  bool fits(std::int64_t room, std::int64_t host) const {
    return needed <= room && (host == 0 || on_host <= host);
  }
};

// Once a rank needs more than `limit`, the others are not looked at, and on_host is 0. `config` is
// valid for that many ranks and knows its vocabulary. `schedules`: as for plan_layout().
LayoutMemory layout_memory(const Config& config, const RankSet& set, const Target& target,
                           std::int64_t limit = INT64_MAX,
                           std::shared_ptr<PlannedSchedules> schedules = nullptr);

}  // namespace trireme
