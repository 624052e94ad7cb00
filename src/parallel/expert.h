// Expert parallelism: the experts of a layer, dealt out over ranks that see different tokens.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace trireme {

// This rank's place among those that share the experts: expert e is on rank e / share(experts).
struct ExpertParallel {
  int size = 1;
  int rank = 0;
  bool exact = false;  // gradients are summed as integers, micro-batch by micro-batch
  // Gradients of experts are summed, and their states shared, by other ranks than those of all
  // else.
  bool apart = false;

  GraphGroup group() const { return {GroupKind::expert, size}; }
  std::int64_t share(std::int64_t experts) const { return experts / size; }
};

}  // namespace trireme
