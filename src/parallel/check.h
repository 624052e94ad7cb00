// Validates a schedule and reports its cost before anything runs.
#pragma once

#include <string>
#include <vector>

#include "parallel/schedule/schedule.h"
#include "parallel/schedule/timeline.h"

namespace trireme {

// Blocking behavior of sends and receives.
enum class TransferModel {
  // Receives are posted and sends are started; only passes that need the data wait (MPI).
  asynchronous,
  // Transfers run in order on a separate queue, on both sides at the same time; passes wait only
  // for their data (NCCL on one stream).
  queued,
  // The rank itself blocks until both sides are ready and the data has been transferred.
  blocking,
};

struct CheckOptions {
  std::vector<PassTimes> times = {PassTimes{}};  // as in ScheduleRequest
  double transfer_time = 0;                      // of one message, in the unit of `times`
  TransferModel model = TransferModel::asynchronous;
};

// Buffers that a chunk needs simultaneously, besides the slots shared by all chunks of a rank.
// Every pass processes the micro-batches of a chunk in ascending order, so the live ones are
// consecutive and micro-batch m can always use buffer m % count.
struct ChunkBuffers {
  int activations = 0;   // from receive_activation to forward
  int gradients = 0;     // from receive_gradient to input_grad (or backward)
  int weight_grads = 0;  // output gradients, from input_grad to weight_grad
};

struct RankReport {
  double busy = 0;   // computing
  double idle = 0;   // the rest of the makespan
  double stall = 0;  // waits between the first and last pass: idle time without fill and drain
  std::vector<ChunkBuffers> buffers;  // by chunk
  // Maximum number of micro-batches between forward and weight_grad (or backward), over all chunks
  // together: the number of slots needed.
  int peak_in_flight = 0;
  std::int64_t sends = 0;  // messages per step; over all ranks equal to the receives
  // Time span of each action, indexed like Schedule::actions; empty if the schedule has loops.
  std::vector<Span> spans;
};

struct ScheduleReport {
  double makespan = 0;
  // Fraction of rank-time in [0, makespan] in which ranks do not compute.
  double bubble = 0;
  // The longest stall of any rank. stall / (stall + busy) is the bubble rate of the zero-bubble
  // papers, where steps follow one another without a global barrier.
  double longest_stall = 0;
  double stall_rate = 0;
  // Peak activation memory over all ranks, in micro-batches of a full rank: peak_in_flight /
  // chunks.
  double peak_memory = 0;
  std::int64_t messages = 0;
  std::vector<RankReport> ranks;
};

// Checks that every micro-batch passes through every stage once, with forward before input gradient
// before weight gradient and these in ascending order; that sends and receives match, in the same
// order on both sides; that data arrives before it is used; and that there is no deadlock. Fails
// (exit code 1) naming the rank and the action, otherwise reports. Schedules with loops are fully
// checked, including every iteration, for asynchronous transfers that take no time.
ScheduleReport check_schedule(const Schedule& schedule, const CheckOptions& options = {});

// Reports on a schedule that check_schedule has already checked, with other times: `checked` is the
// earlier report. The lists are not checked again.
ScheduleReport time_schedule(const Schedule& schedule, const ScheduleReport& checked,
                             const CheckOptions& options);

// Title, e.g. "1f1b, 4 ranks x 2 virtual stages, 8 micro-batches", and a sentence on the cost of a
// step, without its period.
std::string title(const Schedule& schedule);
std::string costs_text(const ScheduleReport& report);
// Title and cost: "1f1b, 4 ranks, 8 micro-batches: bubble 27.3%; ...".
std::string summary(const Schedule& schedule, const ScheduleReport& report);

// Returns e.g. "rank 2, action 7: input_grad of micro-batch 3, chunk 1".
std::string describe(const Schedule& schedule, int rank, std::size_t index);
std::string describe(const Schedule& schedule, int rank, std::size_t index, const Action& action);

}  // namespace trireme
