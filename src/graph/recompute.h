// Recomputation as a rewrite: values that are not kept are computed again in the backward pass,
// just before they are needed. The kernels are the same, so the bits are too.
#pragma once

#include <functional>

#include "config/choices.h"
#include "graph/graph.h"

namespace trireme {

// Rewrites graph.backward; call after differentiate(). With `full`, the backward pass no longer
// reads any value from the forward pass, so training can omit the forward pass of a segment whose
// output is not needed (the head).
void recompute(Graph& graph, Recompute how);

}  // namespace trireme
