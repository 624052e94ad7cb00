// Expert parallelism: the experts of a layer sharded over ranks that see different tokens, and
// expert tensor parallelism, which shards each expert over adjacent ranks.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace trireme {

// This rank's position in the expert-parallel group. Every tensor_size adjacent ranks own
// share(experts) experts; each of them holds a part of the experts' inner width.
struct ExpertParallel {
  int size = 1;
  int rank = 0;
  int tensor_size = 1;  // divides size
  bool exact = false;   // gradients are summed as integers, per micro-batch
  // Expert gradients are reduced, and their states sharded, over other ranks than those of all
  // other parameters.
  bool apart = false;

  GraphGroup group() const { return {GroupKind::expert, size}; }
  int owners() const { return size / tensor_size; }
  int owner() const { return rank / tensor_size; }
  int tensor_rank() const { return rank % tensor_size; }
  std::int64_t share(std::int64_t experts) const { return experts / owners(); }
};

}  // namespace trireme
