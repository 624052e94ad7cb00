// Request for a layout search and its answer: the same for `trireme plan --search` and for programs
// that link the library.
#pragma once

#include <cstdint>
#include <string>

#include "plan/layout_search.h"

namespace trireme {

struct SearchRequest {
  std::int64_t ranks = 0;   // 0: not given, which is rejected
  std::int64_t memory = 0;  // bytes per rank; 0: that of a device
  std::string stack = "trireme";
  bool exhaustive = false;
};

struct SearchAnswer {
  RankSet set;
  LayoutSearch search;  // at least one layout
};

// `config` must be valid with known vocabulary. Fails with exit code 1 if no layout fits, and with
// 2 if the request allows none.
SearchAnswer answer_search(const Config& config, const Machine& machine,
                           const SearchRequest& request);

// Serializes the answer as `trireme plan --search --json` prints it.
std::string to_json_text(const SearchAnswer& answer, const Config& config);

}  // namespace trireme
