// Recomputes steps of a run from one of its checkpoints, on any layout, and compares the results
// with the run's metrics.jsonl. Writes nothing to the run's folder.
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

// Starting point and configuration of the replayed steps.
struct ReplayPlan {
  fs::path metrics;     // the run's file
  fs::path checkpoint;  // empty: start of the run
  std::int64_t first = 0, last = 0;
  std::int64_t from = 0;  // the first step to compute
  Config config;  // that of the run, but for the overrides and what the run does besides its steps
  // What is not as the run's configuration says. Another micro-batch size changes the bits of exact
  // numerics too without parallel.exact_block, and another parallel.tp without exact_leaves.
  bool other_layout = false, other_micro_batch = false, other_tensor_ranks = false;
  // Other settings that the overrides change: "parallel.exact_leaves: 4, was 8".
  std::vector<std::string> changed;
};

// Refused (exit code 2): a folder that is not a run's, steps not reached or without a line in its
// metrics, overrides that a replay sets itself, spans in which the run rolled back.
ReplayPlan plan_replay(const ReplayRequest& request);

// A value of a step that differs from the run's.
struct ReplayedValue {
  std::int64_t step = 0;
  std::string name, in_run, here;  // as in metrics.jsonl
};

struct ReplayReport {
  std::int64_t from = 0;  // first computed step; steps between it and the span are counted too
  std::int64_t steps = 0, hashes = 0;  // compared
  std::int64_t differing_steps = 0;
  std::vector<ReplayedValue> first_differing;  // the values of the first step that differs
};

// Collective; the report is valid on the first rank. The trainer's output goes to `out`.
ReplayReport replay(const ReplayPlan& plan, std::FILE* out, Transport& transport);

}  // namespace trireme
