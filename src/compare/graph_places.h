// Outputs of a graph's nodes that every layout computes, and the identity of each.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "compare/step_values.h"
#include "graph/graph.h"

namespace trireme {

// Nodes of the tensor-parallel part of a graph may compute one rank's summand only, which is not
// compared: the node that sums over the ranks stands for the one that made the summand.
class GraphPlaces {
 public:
  struct Output {
    int index = 0;    // among the outputs of the node
    std::string key;  // the same in the graphs of all layouts
  };
  struct NodePlaces {
    StepPlace place;     // without layer and parameter
    int parameter = -1;  // index of the first parameter that it reads; -1: none
    std::vector<Output> outputs;
  };

  explicit GraphPlaces(const Graph& graph);

  // Null if nothing of the node is compared.
  const NodePlaces* of(const Node& node) const;

 private:
  void mark_summands(const std::vector<Node>& nodes);
  void add(const std::vector<Node>& nodes, bool is_forward);
  void describe(const Node& node, bool is_forward, NodePlaces& places) const;
  void name_outputs(const Node& node, const std::string& name);
  void stand_for_summand(const Node& sum, NodePlaces& places);

  const Graph& graph_;
  std::vector<bool> is_summand_;   // by value
  std::vector<std::string> keys_;  // by value; "" if it has none
  std::vector<ValueId> maker_;     // by value: the first output of the node that made it
  std::unordered_map<ValueId, NodePlaces> places_;  // by the first output of the node
};

}  // namespace trireme
