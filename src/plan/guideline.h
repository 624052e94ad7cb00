// Published rules of thumb by model size: number of GPUs, tensor and pipeline parallelism. They are
// well known, so searches are compared with them.
#pragma once

#include <cstdint>
#include <span>

namespace trireme {

struct Guideline {
  const char* size;  // as named in the tables
  double parameters = 0;
  std::int64_t ranks = 1, tp = 1, pp = 1;  // the rest is data-parallel
};

// By size, then by ranks.
std::span<const Guideline> all_guidelines();

// Returns the row for a model and a number of ranks: of the nearest size, the last row that needs
// no more ranks, or the first row.
const Guideline& guideline_for(double parameters, std::int64_t ranks);

}  // namespace trireme
