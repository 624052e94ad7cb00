// Text form of lists of ranks: "0-3, 7".
#pragma once

#include <string>
#include <vector>

namespace trireme {

// `ranks` ascending. Long lists end in "and 12 more".
std::string rank_list(const std::vector<int>& ranks);

}  // namespace trireme
