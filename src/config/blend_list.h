// Lists of datasets as data.path and its relatives hold them: prefixes with or without weights.
#pragma once

#include <string>
#include <vector>

namespace trireme {

// Files and, where they were given, their weights.
struct BlendSpec {
  std::vector<std::string> prefixes;
  std::vector<double> weights;  // empty: by size
};

// Reads "prefix ..." or "weight prefix weight prefix ...". A list of even length whose first,
// third, ... elements are all numbers is of the second kind. Throws bad_input for weights that are
// not positive or missing in part; messages call the list `key`.
BlendSpec parse_blend(const std::vector<std::string>& path, const std::string& key = "data.path");

}  // namespace trireme
