// Computes steps of a run again, from one of its checkpoints and on any layout, and compares what
// the run wrote into metrics.jsonl. Nothing is written into the run's folder.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/transport.h"
#include "config/config.h"

namespace trireme {

struct ReplayRequest {
  fs::path run;
  std::int64_t first = 0, last = 0;    // steps
  std::vector<std::string> overrides;  // section.key=value
};

// Where the steps are computed from, and with what.
struct ReplayPlan {
  fs::path metrics;     // the run's file
  fs::path checkpoint;  // empty: the run's own beginning
  std::int64_t first = 0, last = 0;
  std::int64_t from = 0;  // the first step to compute
  Config config;  // that of the run, but for the overrides and what the run does besides its steps
  // What is not as the run's configuration says. Another micro-batch size changes the bits of exact
  // numerics too without parallel.exact_block, and another parallel.tp without exact_leaves.
  bool other_layout = false, other_micro_batch = false, other_tensor_ranks = false;
};

// Refused (exit code 2): a folder that is not a run's, steps that it has not done or from before
// its first checkpoint, overrides that a replay makes itself, spans in which the run went back.
ReplayPlan plan_replay(const ReplayRequest& request);

// A value of a step that is not that of the run.
struct ReplayedValue {
  std::int64_t step = 0;
  std::string name, in_run, here;  // as in metrics.jsonl
};

struct ReplayReport {
  std::int64_t from = 0;  // the first step that was computed; those up to the span count as well
  std::int64_t steps = 0, hashes = 0;  // compared
  std::int64_t differing_steps = 0;
  std::vector<ReplayedValue> first_differing;  // the values of the first step that differs
};

// All ranks together; the report is the first one's. What the trainer says goes to `out`.
ReplayReport replay(const ReplayPlan& plan, std::FILE* out, Transport& transport);

}  // namespace trireme
