// Layouts to compare, as text and as configurations.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace trireme {

// A layout to compare with a single rank.
struct ParityLayout {
  std::string text;  // as given
  Config config;
  int ranks = 1;
  std::vector<std::string> notes = {};  // settings without effect
};

// Reads layouts: each a list, separated by spaces or commas, of overrides "section.key=value" of a
// layout, in which "parallel." may be left out, "sp" stands for sequence_parallel, and dp=N gives
// the data-parallel degree (default: the smallest that the layout allows). `settings` are overrides
// for all layouts. Refused (exit code 2): what changes the model or its numbers, settings given
// twice, layouts that do not fit, and too many ranks.
struct ParityRequest {
  std::string file;
  std::vector<std::string> layouts, settings;
};
struct ParityPlan {
  ParityLayout one_rank;  // the reference
  std::vector<ParityLayout> layouts;
};
ParityPlan plan_parity(const ParityRequest& request);

}  // namespace trireme
