// Differentiation of a segment: appends the backward pass, node by node, by each op's own rule.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace trireme {

// Fills graph.backward. Gradients start at the declared output (whose gradient arrives from the
// next segment) and at losses; they end at the parameters and at the segment's input.
void differentiate(Graph& graph);

// The interface that gradient rules work with.
class GradientBuilder {
 public:
  explicit GradientBuilder(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  // The gradient of a forward value that is known so far; no_value if there is none yet.
  ValueId grad(ValueId forward_value) const;
  // Adds a contribution.
  void add_grad(ValueId forward_value, ValueId contribution);
  // Replaces the gradient by one that already contains what grad() gave before.
  void set_grad(ValueId forward_value, ValueId total);
  // Adds the gradient of rows [first_row, ...) of a value; all rows must come, each once.
  void set_rows_grad(ValueId forward_value, ValueId rows_grad, std::int64_t first_row);
  // Whether the gradient of this value is needed: not for tokens, tables and absent operands.
  bool wants_grad(ValueId forward_value) const;

  // Emits a node of the input-gradient or the weight-gradient phase.
  const Node& emit(Phase phase, OpKind op, Attributes attributes,
                   std::initializer_list<ValueId> inputs) {
    return graph_.emit_grad(op, phase, attributes, inputs);
  }

 private:
  Graph& graph_;
  std::vector<ValueId> grads_;
};

}  // namespace trireme
