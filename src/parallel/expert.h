// Expert parallelism: the experts of a layer, distributed over ranks that see different tokens, and
// expert tensor parallelism, which cuts each of them over adjacent ranks.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace trireme {

// This rank's place among those that share the experts. Each tensor_size adjacent ranks own
// share(experts) experts, and each of them has a part of their inner width.
struct ExpertParallel {
  int size = 1;
  int rank = 0;
  int tensor_size = 1;  // divides size
  bool exact = false;   // gradients are summed as integers, micro-batch by micro-batch
  // Gradients of experts are summed, and their states shared, by other ranks than those of all
  // else.
  bool apart = false;

  GraphGroup group() const { return {GroupKind::expert, size}; }
  int owners() const { return size / tensor_size; }
  int owner() const { return rank / tensor_size; }
  int tensor_rank() const { return rank % tensor_size; }
  std::int64_t share(std::int64_t experts) const { return experts / owners(); }
};

}  // namespace trireme
