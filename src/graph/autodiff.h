// Automatic differentiation of a segment: appends the backward pass using each op's gradient rule.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace trireme {

// Fills graph.backward. Backpropagation starts at the declared output, whose gradient comes from
// the next segment, and at the losses; it ends at the parameters and at the segment's input.
void differentiate(Graph& graph);

// The interface that gradient rules work with.
class GradientBuilder {
 public:
  explicit GradientBuilder(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  // Returns the gradient accumulated so far for a forward value; no_value if there is none yet.
  ValueId grad(ValueId forward_value) const;
  // Adds a contribution to the gradient of a forward value.
  void add_grad(ValueId forward_value, ValueId contribution);
  // Replaces a gradient with a total that already includes the previous grad().
  void set_grad(ValueId forward_value, ValueId total);
  // Sets the gradient of rows [first_row, ...) of a value; every row must be set exactly once.
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
