// The order of compute actions on each rank: what makes one schedule different from another.
#pragma once

#include <functional>
#include <vector>

#include "parallel/schedule.h"

namespace trireme {

// Compute actions only, by rank.
using PassOrder = std::vector<std::vector<Action>>;

// Makes the order of passes for any number of micro-batches.
using PassMaker = std::function<PassOrder(int)>;

// One function for each schedule: gpipe_passes, one_f_one_b_passes and so on. The request and its
// placement are valid.
#define TRIREME_SCHEDULE_PASSES(kind, ...) \
  PassMaker kind##_passes(const ScheduleRequest& request, const StagePlacement& placement);
TRIREME_SCHEDULES(TRIREME_SCHEDULE_PASSES)
#undef TRIREME_SCHEDULE_PASSES

// Places weight_grad into orders of forward and input_grad: into waits, and as soon as a rank holds
// `limit` micro-batches of chunks. Of several orders, and of how long a wait must be to be filled,
// the best is taken.
PassMaker with_weight_grads(const std::vector<PassMaker>& candidates,
                            const ScheduleRequest& request, const StagePlacement& placement,
                            int limit);

}  // namespace trireme
