// Proves a schedule correct and reports its cost, before anything runs.
#pragma once

#include <string>
#include <vector>

#include "parallel/schedule.h"
#include "parallel/timeline.h"

namespace trireme {

// How sends and receives behave.
enum class TransferModel {
  // Receives are posted, sends are started, nothing waits but the passes that need the data (MPI).
  asynchronous,
  // Transfers run one after another on a queue of their own, both sides at the same time; passes
  // wait for their data only (NCCL on one stream).
  queued,
  // The rank itself waits until both sides are there and the data is across.
  blocking,
};

struct CheckOptions {
  std::vector<PassTimes> times = {PassTimes{}};  // as in ScheduleRequest
  double transfer_time = 0;                      // of one message, in the same unit
  TransferModel model = TransferModel::asynchronous;
};

// Buffers that a chunk needs at the same time, in addition to the slots that all chunks of a rank
// share. Every pass handles the micro-batches of a chunk in ascending order, so the live ones are
// consecutive: micro-batch m can always use buffer m % count.
struct ChunkBuffers {
  int activations = 0;   // from receive_activation to forward
  int gradients = 0;     // from receive_gradient to input_grad (or backward)
  int weight_grads = 0;  // output gradients, from input_grad to weight_grad
};

struct RankReport {
  double busy = 0;   // computing
  double idle = 0;   // the rest of the makespan
  double stall = 0;  // waits between its first and its last pass: idle without fill and drain
  std::vector<ChunkBuffers> buffers;  // by chunk
  // Micro-batches between forward and weight_grad (or backward), of all chunks together, at the
  // worst moment: slots.
  int peak_in_flight = 0;
  std::int64_t sends = 0;  // messages per step, as many as receives over all ranks
  // When each action happens, as in Schedule::actions; empty where the schedule has loops.
  std::vector<Span> spans;
};

struct ScheduleReport {
  double makespan = 0;
  // Share of rank-time between 0 and makespan in which ranks do not compute.
  double bubble = 0;
  // The longest stall of any rank. The share that it has of a step, stall / (stall + busy), is the
  // bubble rate of the zero-bubble papers: steps may follow each other without waiting for all.
  double longest_stall = 0;
  double stall_rate = 0;
  // Most activations that any rank holds, in micro-batches of a whole rank: peak_in_flight /
  // chunks.
  double peak_memory = 0;
  std::int64_t messages = 0;
  std::vector<RankReport> ranks;
};

// Checks that every micro-batch passes every stage once, forward before input before weight
// gradients and these in ascending order; that sends and receives match, in the same order on both
// sides; that nothing is computed before it has arrived; and that nothing deadlocks. Fails (exit
// code 1) naming the rank and the action. Otherwise reports. Schedules with loops are checked in
// full, every turn of them, for asynchronous transfers that take no time.
ScheduleReport check_schedule(const Schedule& schedule, const CheckOptions& options = {});

// The report for other times, of a schedule that check_schedule has checked: `checked` is what it
// reported. The lists are not checked again.
ScheduleReport time_schedule(const Schedule& schedule, const ScheduleReport& checked,
                             const CheckOptions& options);

// "1f1b, 4 ranks x 2 virtual stages, 8 micro-batches", and what a step costs as a sentence without
// its full stop.
std::string title(const Schedule& schedule);
std::string costs_text(const ScheduleReport& report);
// Both: "1f1b, 4 ranks, 8 micro-batches: bubble 27.3%; ...".
std::string summary(const Schedule& schedule, const ScheduleReport& report);

// "rank 2, action 7: input_grad of micro-batch 3, chunk 1"
std::string describe(const Schedule& schedule, int rank, std::size_t index);
std::string describe(const Schedule& schedule, int rank, std::size_t index, const Action& action);

}  // namespace trireme
