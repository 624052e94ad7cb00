// Global batch sizes of a run (train.global_batch_size, rampup_batch_size and
// batch_size_schedule).
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"

namespace trireme {

// Once this many samples have been consumed, each step takes `size` samples.
struct BatchSizeFrom {
  std::int64_t samples = 0, size = 0;
};

// Parses train.batch_size_schedule, sorted by samples; empty if not set. A threshold in tokens is
// converted to the whole samples it covers. Malformed schedules are refused (exit code 2).
std::vector<BatchSizeFrom> batch_size_schedule(const Config& config);

// All batch sizes of the run's steps, unique and ascending.
std::vector<std::int64_t> batch_sizes(const Config& config, std::int64_t world_size);

// Samples per evaluation iteration: global_batch_size(), or micro_batch_size x dp with a schedule,
// as in Megatron.
std::int64_t evaluation_batch_size(const Config& config, std::int64_t world_size);

}  // namespace trireme
