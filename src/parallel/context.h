// Context parallelism: ranks that shard every sequence, and the communication of their attention.
#pragma once

#include <cstdint>

#include "config/choices.h"
#include "graph/graph.h"

namespace trireme {

// This rank's position in the context-parallel group. A sequence is cut into 2 * size chunks; each
// rank holds two, at equal distance from both ends, so that causal attention is balanced over the
// ranks.
struct ContextParallel {
  int size = 1;
  int rank = 0;
  ContextAttention attention = ContextAttention::all_gather;

  GraphGroup group() const { return {GroupKind::context, size}; }
  // Local share of `seq` positions; `seq` must be a multiple of 2 * size.
  std::int64_t share(std::int64_t seq) const { return seq / size; }
  SequenceCut cut(std::int64_t seq) const {
    if (size == 1) return {};
    const std::int64_t chunk = seq / (2 * size);
    return {chunk, {rank * chunk, (2 * size - 1 - rank) * chunk}};
  }
};

}  // namespace trireme
