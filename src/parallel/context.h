// Context parallelism: ranks that share every sequence, and how their attention communicates.
#pragma once

#include <cstdint>

#include "config/choices.h"
#include "graph/graph.h"

namespace trireme {

// This rank's place among those that share sequences. Each has two chunks of a sequence that is cut
// into 2 * size of them, the same distance from both ends, so that causal attention is the same
// work on all ranks.
struct ContextParallel {
  int size = 1;
  int rank = 0;
  ContextAttention attention = ContextAttention::all_gather;

  GraphGroup group() const { return {GroupKind::context, size}; }
  // Share of `seq` positions, a multiple of 2 * size.
  std::int64_t share(std::int64_t seq) const { return seq / size; }
  SequenceCut cut(std::int64_t seq) const {
    if (size == 1) return {};
    const std::int64_t chunk = seq / (2 * size);
    return {chunk, {rank * chunk, (2 * size - 1 - rank) * chunk}};
  }
};

}  // namespace trireme
