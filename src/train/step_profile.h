// Breakdown of the time of training steps on one rank: by kind of op, by group of messages, and the
// remainder; for `trireme profile`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "config/config.h"
#include "runtime/memory.h"
#include "train/op_times.h"

namespace trireme {

// Sum over all operations of a group, per step. They overlap with computation and with each other.
struct MessageTime {
  std::string group;
  double calls = 0, sent_bytes = 0;
  double seconds = 0;  // from their starts to their ends
};

struct StepProfile {
  int pipeline_rank = 0;
  double seconds = 0;                 // mean of the steps, without an observer on GPUs
  double waited = 0;                  // of a step, for messages
  double rest = 0;                    // of a step: neither in ops nor in waits
  std::vector<OpTime> ops;            // slowest first
  std::vector<MessageTime> messages;  // slowest first
  MemoryPlan memory;                  // which a run allocates at its start and keeps
  // The part that micro-batches in flight hold, from `at` seconds after the step's begin on.
  // Everything else is needed for the whole step.
  struct Held {
    double seconds;
    std::int64_t bytes;
  };
  std::vector<Held> in_flight;
  double in_flight_seconds = 0;  // of the step that it was taken from
  std::int64_t peak_resident_bytes = 0;
  double samples = 0, tokens = 0;  // of a step, of all ranks
  double flops = 0;                // of a step, of all ranks, with attention to all positions
  std::string trace;               // of one more step, as Trace::json(); empty: not asked for
};

// All ranks together: one step to warm up, then `steps` on random tokens. `config` is valid for
// that many ranks, and its vocabulary known.
StepProfile profile_step(const Config& config, int steps, bool trace, Transport& transport);

}  // namespace trireme
