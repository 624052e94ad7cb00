// Reverse-mode sweep over the forward nodes.
#include "graph/autodiff.h"

#include "graph/op.h"

namespace trireme {

ValueId GradientBuilder::grad(ValueId value) const {
  if (value == no_value || value >= static_cast<ValueId>(grads_.size())) return no_value;
  return grads_[value];
}

void GradientBuilder::set_grad(ValueId value, ValueId total) {
  if (value >= static_cast<ValueId>(grads_.size())) grads_.resize(value + 1, no_value);
  grads_[value] = total;
}

void GradientBuilder::add_grad(ValueId value, ValueId contribution) {
  const ValueId before = grad(value);
  if (before != no_value) {
    contribution =
        emit(Phase::input_grad, OpKind::add, AddAttributes{{}, 1}, {before, contribution})
            .outputs[0];
  }
  set_grad(value, contribution);
}

void GradientBuilder::set_rows_grad(ValueId value, ValueId rows_grad, std::int64_t first_row) {
  const Value whole = graph_.value(value);
  if (grad(value) == no_value) set_grad(value, graph_.new_value(whole.dtype, whole.shape));
  graph_.place_in(rows_grad, grad(value), first_row * whole.shape.back() * size_of(whole.dtype));
}

bool GradientBuilder::wants_grad(ValueId value) const {
  if (value == no_value) return false;
  const Role role = graph_.value(value).role;
  return role == Role::internal || role == Role::input || role == Role::output ||
         role == Role::parameter;
}

void differentiate(Graph& graph) {
  GradientBuilder builder(graph);
  if (graph.output() != no_value) builder.set_grad(graph.output(), graph.make_output_grad());
  for (auto node = graph.forward.rbegin(); node != graph.forward.rend(); ++node) {
    bool reached = node->op == OpKind::token_loss;
    for (const ValueId output : node->outputs) {
      reached = reached || builder.grad(output) != no_value;
    }
    if (!reached) continue;
    const OpDefinition& def = definition(node->op);
    if (!def.gradient) {
      fail("{}: this op is between a parameter and the loss, but has no gradient rule", def.name);
    }
    def.gradient(builder, *node);
  }
  if (graph.input() != no_value) {
    const ValueId grad = builder.grad(graph.input());
    TRIREME_CHECK(grad != no_value);
    graph.set_input_grad(grad);
  }
}

}  // namespace trireme
