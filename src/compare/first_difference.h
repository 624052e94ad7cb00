// The first value of a step that differs between a layout and one rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/layout_run.h"

namespace trireme {

// The first value, in the order of computation on one rank, that differs.
struct FirstDifference {
  int step = 0;  // from 0
  StepPlace place;
  std::vector<int> ranks;  // whose values differ
  std::string group;       // what these ranks are: "a tensor-parallel group"; "" if nothing common
  double factor = 0;  // that the values have over those of one rank, if all have the same; 0: none
  double expected = 0, found = 0;  // norms of the differing parts
  bool is_whole = true;            // false: the ranks do not hold all elements equally often
  std::int64_t elements = 0, elements_on_one_rank = 0;  // of the differing parts

  std::string text() const;
};

struct ValueComparison {
  std::optional<FirstDifference> first;
  // Tensors of one rank, in all steps, and how many of them were compared: up to `first`.
  std::int64_t values = 0, compared = 0;
};

// Compares the values of a layout with those of one rank; bit by bit, or up to this relative
// difference.
ValueComparison compare_values(const LayoutRun& layout, const LayoutRun& one_rank,
                               double tolerance = 0);

}  // namespace trireme
