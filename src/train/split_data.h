// The datasets of a run, read as its training reads them.
#pragma once

#include <memory>

#include "config/config.h"
#include "data/dataset.h"
#include "data/split.h"

namespace trireme {

// The fewest ranks that [parallel] takes with one data-parallel rank: how many a run had is not
// part of its configuration.
std::int64_t fewest_ranks_of(const ParallelConfig& parallel);

// Steps for which the order of a run's samples is made.
std::int64_t ordered_steps_of(const Config& config, std::int64_t ranks);

// A split with at least `samples` samples. `config` knows its vocabulary; `eod_id` is the token
// that ends a document, or -1. Refused (exit code 2): a split without data.
std::shared_ptr<const Dataset> open_split(const Config& config, std::int64_t eod_id, Split split,
                                          std::int64_t samples, std::int64_t ranks);

}  // namespace trireme
