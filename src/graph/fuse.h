// Fusion as a rewrite: neighboring nodes of the backward pass become one that passes over memory
// less often. Their kernels give the same bits.
#pragma once

#include "graph/graph.h"

namespace trireme {

// Rewrites graph.backward; call after recompute(). The statistics, the loss and the gradient of a
// slice of logits become a `classifier`, where they follow one another: in the head, whose forward
// pass runs in the backward pass, unless ranks share the vocabulary.
void fuse(Graph& graph);

}  // namespace trireme
