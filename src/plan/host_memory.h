// Host memory of the ranks of a node of GPUs: what is offloaded, the copy of checkpoint.async, and
// the base of each process.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme {

// A node's host, as its ranks find it.
struct NodeHost {
  std::int64_t memory = 0;  // bytes; 0: not known
  int ranks = 1;            // on a node
};

// Bytes that the ranks of the fullest node hold, where a rank holds what `of_position` says of its
// place in the pipeline.
std::int64_t on_fullest_node(const std::vector<std::int64_t>& of_position, int ranks,
                             int ranks_on_node);

}  // namespace trireme
