// A graph as text for reading and as DOT for drawing.
#pragma once

#include <string>

#include "graph/planner.h"

namespace trireme {

// One line per node: outputs = op(operands), with types, shapes, places in memory and costs.
std::string dump_text(const Graph& graph, const SegmentPlan& plan, const std::string& title);

// A digraph for Graphviz: nodes by phase, edges by value.
std::string dump_dot(const Graph& graph, const SegmentPlan& plan, const std::string& title);

}  // namespace trireme
