// Fusion pass: merges nodes into one with less memory traffic.
#pragma once

#include "backend/target.h"
#include "graph/graph.h"

namespace trireme {

// Rewrites graph.backward; call after recompute().
// - Softmax statistics, loss and gradient of a slice of logits become one `classifier` node where
//   they are adjacent: in the head, whose forward pass runs inside the backward pass, unless ranks
//   share the vocabulary. The bits are the same.
// - The gradient of a bias becomes a result of the node that writes its rows (activation_grad,
//   norm_grad; on GPUs attention_grad) or adds to them (norm_grad), which has them at hand. On CPUs
//   the bits are the same; on GPUs norm_grad and attention_grad have orders of their own. Bias
//   gradients by blocks of tokens or by leaves stay apart.
void fuse(Graph& graph, DeviceKind device);

// Rewrites graph.forward for GPUs; call before recompute(), and after differentiate() if the graph
// is differentiated. The addition that makes the segment's output joins the linear layer before it,
// which adds before it rounds; unless it has dropout, or the layer runs in fp8 or in leaves.
void fuse_residual(Graph& graph);

}  // namespace trireme
