// Ranks are assigned to nodes in order; a pipeline position is a contiguous range of ranks.
#include "plan/host_memory.h"

#include <algorithm>

namespace trireme {

std::int64_t on_fullest_node(const std::vector<std::int64_t>& of_position, int ranks,
                             int ranks_on_node) {
  const int of_each = ranks / static_cast<int>(of_position.size());
  std::int64_t most = 0;
  for (int first = 0; first < ranks; first += ranks_on_node) {
    std::int64_t sum = 0;
    for (int rank = first; rank < std::min(ranks, first + ranks_on_node); ++rank)
      sum += of_position[static_cast<std::size_t>(rank / of_each)];
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace trireme
