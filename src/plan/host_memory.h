// Host memory of the ranks of a GPU node: offloaded data, the copy of checkpoint.async, and the
// base footprint of each process.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

// The host of a node, shared by its ranks.
struct NodeHost {
  std::int64_t memory = 0;  // bytes; 0: not known
  int ranks = 1;            // on a node
};

// Returns the maximum over nodes of the bytes that a node's ranks hold; `of_position` gives the
// bytes of a rank by pipeline position.
std::int64_t on_fullest_node(const std::vector<std::int64_t>& of_position, int ranks,
                             int ranks_on_node);

}  // namespace trireme
