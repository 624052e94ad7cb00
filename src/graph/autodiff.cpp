// Reverse-mode sweep over the forward nodes.
#include "graph/autodiff.h"

#include <algorithm>
#include <map>
#include <utility>

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

namespace {

// slice's rule writes rows of a gradient in place (set_rows_grad): rows that nothing sets would
// hold whatever was in memory, and what another consumer contributes would be overwritten.
void require_slices_to_cover(const Graph& graph, const GradientBuilder& builder) {
  std::map<ValueId, std::vector<std::pair<std::int64_t, std::int64_t>>> parts_of;
  for (const Node& node : graph.forward) {
    if (node.op != OpKind::slice || builder.grad(node.outputs[0]) == no_value) continue;
    const auto& slice = node.as<SliceAttributes>();
    parts_of[node.inputs[0]].emplace_back(slice.first_row, slice.first_row + slice.rows);
  }
  for (auto& [value, parts] : parts_of) {
    std::ranges::sort(parts);
    std::int64_t end = 0;
    for (const auto& [first_row, end_row] : parts) {
      if (first_row != end)
        fail(
            "slice: the rows [{}, {}) do not follow those before, which end at row {}, so their "
            "gradients would have a gap or overlap",
            first_row, end_row, end);
      end = end_row;
    }
    if (const std::int64_t rows = graph.value(value).shape[0]; end != rows)
      fail("slice: the gradients cover only {} of {} rows", end, rows);
    for (const Node& node : graph.forward) {
      if (node.op != OpKind::slice && std::ranges::find(node.inputs, value) != node.inputs.end())
        fail("slice: {} reads the same value, and its gradient would be lost",
             definition(node.op).name);
    }
  }
}

}  // namespace

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
  require_slices_to_cover(graph, builder);
  if (graph.input() != no_value) {
    const ValueId grad = builder.grad(graph.input());
    TRIREME_CHECK(grad != no_value);
    graph.set_input_grad(grad);
  }
}

}  // namespace trireme
