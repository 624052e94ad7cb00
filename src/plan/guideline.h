// Recommendations of tables by the size of the model: GPUs, tensor and pipeline parallelism. They
// are well known, so a search is compared with them.
#pragma once

#include <cstdint>
#include <span>

namespace trireme {

struct Guideline {
  const char* size;  // as the tables name it
  double parameters = 0;
  std::int64_t ranks = 1, tp = 1, pp = 1;  // the rest is data-parallel
};

// By size, then by ranks.
std::span<const Guideline> all_guidelines();

// The row for a model and a number of ranks: the nearest size, and of its rows the last that needs
// no more ranks, or the first.
const Guideline& guideline_for(double parameters, std::int64_t ranks);

}  // namespace trireme
