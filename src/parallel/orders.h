// The order of compute actions on each rank: what makes one schedule different from another.
#pragma once

#include <vector>

#include "parallel/schedule.h"

namespace trireme {

// Compute actions only, by rank.
using PassOrder = std::vector<std::vector<Action>>;

PassOrder gpipe_order(int ranks, int micro_batches);
// 1F1B over one or more chunks; `split` gives input_grad instead of backward, without weight_grad.
PassOrder one_f_one_b_order(int ranks, int micro_batches, bool split);
PassOrder interleaved_order(int ranks, int micro_batches, int chunks);

// Forward and input_grad of V-shaped schedules with two chunks; weight_grad is to be placed.
PassOrder zbv_order(int ranks, int micro_batches);
// V-Half repeats a building block. Several do for a number of ranks; which is best depends on
// times.
struct VHalfBlock {
  int shift;              // units from rank to rank; see vhalf.cpp
  int turn_at_last_rank;  // waits where the V turns, in units
  int turn_at_first_rank;
  int return_at_last_rank;
};
std::vector<VHalfBlock> vhalf_blocks(int ranks);
PassOrder vhalf_order(const VHalfBlock& block, int ranks, int micro_batches);

// Places weight_grad into an order of forward and input_grad: into waits, and as soon as a rank
// holds `limit` micro-batches of chunks. `patience` is the part of a weight_grad that a wait must
// last to be filled with one.
PassOrder with_weight_grads(const PassOrder& order, const StagePlacement& placement,
                            const std::vector<PassTimes>& times, int limit, double patience);

// Most micro-batches of chunks that any rank holds: from forward to weight_grad (or backward). In
// an order without weight_grad, to input_grad.
int peak_in_flight(const PassOrder& order);

}  // namespace trireme
