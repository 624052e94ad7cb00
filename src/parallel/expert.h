// Expert parallelism: the experts of a layer, distributed over ranks that see different tokens,
// each expert whole or split by expert tensor parallelism.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace trireme {

// This rank's place among those that share the experts. Ranks k slices to k slices + slices - 1
// have the experts from k share(experts) on, each rank a slice of each one's inner width.
struct ExpertParallel {
  int size = 1;
  int rank = 0;
  int slices = 1;      // divides size
  bool exact = false;  // gradients are summed as integers, micro-batch by micro-batch
  // Gradients of experts are summed, and their states shared, by other ranks than those of all
  // else.
  bool apart = false;

  GraphGroup group() const { return {GroupKind::expert, size}; }
  int owners() const { return size / slices; }
  int owner() const { return rank / slices; }
  int slice() const { return rank % slices; }
  std::int64_t share(std::int64_t experts) const { return experts / owners(); }
};

}  // namespace trireme
