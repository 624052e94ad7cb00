// The order of compute actions on each rank, which distinguishes one schedule from another.
#pragma once

#include <functional>
#include <vector>

#include "parallel/schedule/schedule.h"

namespace trireme {

// Compute actions only, by rank.
using PassOrder = std::vector<std::vector<Action>>;

// Generates the order of passes for any number of micro-batches.
using PassMaker = std::function<PassOrder(int)>;

// One function per schedule: gpipe_passes, one_f_one_b_passes and so on. The request and its
// placement must be valid.
#define TRIREME_SCHEDULE_PASSES(kind, ...) \
  PassMaker kind##_passes(const ScheduleRequest& request, const StagePlacement& placement);
TRIREME_SCHEDULES(TRIREME_SCHEDULE_PASSES)
#undef TRIREME_SCHEDULE_PASSES

// Inserts weight_grad actions into orders of forward and input_grad: into bubbles, and as soon as a
// rank has `limit` micro-batches of chunks in flight. Returns the best result over all candidates
// and over thresholds for the length of a bubble to fill.
PassMaker with_weight_grads(const std::vector<PassMaker>& candidates,
                            const ScheduleRequest& request, const StagePlacement& placement,
                            int limit);

}  // namespace trireme
