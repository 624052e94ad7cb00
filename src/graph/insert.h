// Inserts the graph of a segment into that of another one.
#pragma once

#include <string>

#include "graph/graph.h"

namespace trireme {

// Copies the forward nodes of `segment`, which has an input and an output, to the end of those of
// `graph`, with `input` in the place of its input and its parameters under `prefix`. Returns the
// copy of its output. Call before differentiate().
ValueId insert_segment(Graph& graph, const Graph& segment, ValueId input,
                       const std::string& prefix);

}  // namespace trireme
