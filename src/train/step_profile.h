// Breakdown of training step time on one rank: by op kind, by process group of messages, and the
// remainder; for `trireme profile`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/transport.h"
#include "config/config.h"
#include "runtime/memory.h"
#include "train/engine/op_times.h"

namespace trireme {

// Total of all operations of a group, per step. They overlap with computation and each other.
struct MessageTime {
  std::string group;
  double calls = 0, sent_bytes = 0;
  double seconds = 0;  // from start to end of each
};

struct StepProfile {
  int pipeline_rank = 0;
  double seconds = 0;                 // mean of the steps, without an observer on GPUs
  double waited = 0;                  // per step, waiting for messages
  double rest = 0;                    // per step: neither ops nor waits
  std::vector<OpTime> ops;            // slowest first
  std::vector<MessageTime> messages;  // slowest first
  MemoryPlan memory;                  // allocated at the start of a run, for its duration
  // Memory of micro-batches in flight, from `at` seconds after the start of the step. All other
  // memory is in use for the full step.
  struct Held {
    double seconds;
    std::int64_t bytes;
  };
  std::vector<Held> in_flight;
  double in_flight_seconds = 0;  // duration of the step it was taken from
  std::int64_t peak_resident_bytes = 0;
  double samples = 0, tokens = 0;  // of a step, of all ranks
  double flops = 0;                // of a step, of all ranks, with attention to all positions
  std::string trace;               // of one more step, as Trace::json(); empty: not asked for
};

// Collective: one warm-up step, then `steps` on random tokens. `config` must be valid for that many
// ranks, with its vocabulary known.
StepProfile profile_step(const Config& config, int steps, bool trace, Transport& transport);

}  // namespace trireme
