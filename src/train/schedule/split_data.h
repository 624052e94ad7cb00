// Opens the datasets of a run as training reads them.
#pragma once

#include <memory>

#include "config/config.h"
#include "data/dataset.h"
#include "data/split.h"

namespace trireme {

// Returns the minimum number of ranks for [parallel], with one data-parallel rank: the
// configuration does not record how many a run had.
std::int64_t fewest_ranks_of(const ParallelConfig& parallel);

// Number of steps for which the sample order of a run is built.
std::int64_t ordered_steps_of(const Config& config, std::int64_t ranks);

// Opens a split with at least `samples` samples. The vocabulary of `config` must be known; `eod_id`
// is the end-of-document token, or -1. Rejects (exit code 2) a split without data.
std::shared_ptr<const Dataset> open_split(const Config& config, std::int64_t eod_id, Split split,
                                          std::int64_t samples, std::int64_t ranks);

}  // namespace trireme
