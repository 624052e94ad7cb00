// Activation recomputation: values that are not saved are recomputed in the backward pass, just
// before they are needed. The same kernels run, so the results are bitwise identical.
#pragma once

#include <functional>

#include "config/choices.h"
#include "graph/graph.h"

namespace trireme {

// Rewrites graph.backward; call after differentiate(). With `full`, the backward pass no longer
// reads any value of the forward pass, so training can skip the forward pass of a segment whose
// output is not needed (the head).
void recompute(Graph& graph, Recompute how);

}  // namespace trireme
