// Fusion pass: merges neighboring nodes of the backward pass into one node with less memory
// traffic. The fused kernels produce the same bits.
#pragma once

#include "graph/graph.h"

namespace trireme {

// Rewrites graph.backward; call after recompute(). Softmax statistics, loss and gradient of a slice
// of logits are fused into one `classifier` node where they are adjacent: in the head, whose
// forward pass runs inside the backward pass, unless ranks share the vocabulary.
void fuse(Graph& graph);

}  // namespace trireme
