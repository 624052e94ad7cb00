// Dataset lists of data.path and related keys: prefixes with optional weights.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// Dataset prefixes and, if given, their weights.
struct BlendSpec {
  std::vector<std::string> prefixes;
  std::vector<double> weights;  // empty: by size
};

// Parses "prefix ..." or "weight prefix weight prefix ...". A list of even length whose 1st, 3rd,
// ... elements are all numbers has weights. Throws bad_input if weights are not positive or only
// partly given; `key` names the list in messages.
BlendSpec parse_blend(const std::vector<std::string>& path, const std::string& key = "data.path");

}  // namespace trireme
