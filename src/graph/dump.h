// Dumps of a graph: text for reading and DOT for drawing.
#pragma once

#include <string>

#include "graph/planner.h"

namespace trireme {

// Returns one line per node: outputs = op(operands), with types, shapes, addresses and costs.
std::string dump_text(const Graph& graph, const SegmentPlan& plan, const std::string& title);

// Returns a Graphviz digraph: nodes grouped by phase, edges labeled by value.
std::string dump_dot(const Graph& graph, const SegmentPlan& plan, const std::string& title);

}  // namespace trireme
