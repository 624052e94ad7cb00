// Converts an order of compute actions to complete action lists: sends, receives, reductions, step.
#pragma once

#include "parallel/schedule/orders.h"

namespace trireme {

// Fails if the order deadlocks, which is a bug of its generator.
std::vector<std::vector<Action>> with_transfers(const PassOrder& order,
                                                const StagePlacement& placement,
                                                const std::vector<PassTimes>& times);

// Returns the same lists with every receive posted `passes` compute actions earlier.
std::vector<std::vector<Action>> with_early_receives(std::vector<std::vector<Action>> lists,
                                                     int passes);

}  // namespace trireme
