// The sizes that the global batch of a run has (train.global_batch_size, rampup_batch_size and
// batch_size_schedule).
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.h"

namespace trireme {

// From this many consumed samples on, a step takes `size` samples.
struct BatchSizeFrom {
  std::int64_t samples = 0, size = 0;
};

// train.batch_size_schedule, by rising samples; empty where there is none. A number of tokens
// counts as the samples that fit into it. Refuses (exit code 2) what is not a schedule.
std::vector<BatchSizeFrom> batch_size_schedule(const Config& config);

// All sizes that steps of the run have, each once and rising.
std::vector<std::int64_t> batch_sizes(const Config& config, std::int64_t world_size);

// Samples of an iteration of an evaluation: global_batch_size(), or micro_batch_size x dp with a
// schedule, as in Megatron.
std::int64_t evaluation_batch_size(const Config& config, std::int64_t world_size);

}  // namespace trireme
