// Gated delta rule of linear attention, and the state space of Mamba-2.
#include "backend/cpu/workspace.h"
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

DeltaShape delta_shape(const Launch& l, int first_visible) {
  return {l.node.as<DeltaRule>(), {.first_visible = l.input<std::int32_t>(first_visible)}};
}

// inputs: qkv, rates, first_visible, (state, lengths, new tokens)
void infer(Graph& g, Node& node) {
  const auto& rule = node.as<DeltaRule>();
  const std::int64_t rows = rule.batch * rule.seq;
  const Value& qkv = g.value(node.inputs[0]);
  require(qkv.shape[0] == rows && qkv.shape.back() == rule.qkv_cols(), g, node,
          "qkv must be [batch * seq, groups * (2 * key_dim + per_group * value_dim)]");
  require(g.value(node.inputs[1]).shape.count() == rows * rule.rate_cols(), g, node,
          "rates must be [batch * seq, 2, heads], or [batch * seq, 3, heads] in a state space");
  add_output(g, node, 0, g.compute(), {rows, rule.y_cols()});
}

// Products of a chunk of n positions: two of keys and queries with keys [n, n], what both read from
// the state, the updates' own and their share of the output, and what they write to the state. In a
// state space keys meet queries only, and read nothing.
double flops(const Graph&, const Node& node) {
  const auto& rule = node.as<DeltaRule>();
  const double n = 64, k = static_cast<double>(rule.key_dim);
  const double v = static_cast<double>(rule.value_dim);
  const double of_row = 2 * (rule.state_space ? n * k + 2 * k * v + n * v
                                              : 2 * n * k + 3 * k * v + n * v + n * v / 2);
  return of_row * static_cast<double>(rule.batch * rule.seq * rule.heads());
}

void gradient(GradientBuilder& b, const Node& node) {
  const ValueId qkv = node.inputs[0], rates = node.inputs[1];
  TRIREME_CHECK(node.inputs[3] == no_value);
  const Node& grad = b.emit(Phase::input_grad, OpKind::delta_rule_grad, node.attributes,
                            {b.grad(node.outputs[0]), qkv, rates, node.inputs[2]});
  const ValueId dqkv = grad.outputs[0], drates = grad.outputs[1];
  b.add_grad(qkv, dqkv);
  b.add_grad(rates, drates);
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    DeltaShape shape = delta_shape(l, 2);
    shape.places.lengths = l.input<std::int32_t>(4);
    shape.places.new_tokens = l.input<std::int32_t>(5);
    kernels<T>(l).delta_rule(l.queue, shape, l.output<T>(0), l.input<T>(0), l.input<Acc<T>>(1),
                             l.input<Acc<T>>(3), l.workspace);
  });
}

// inputs: dy, qkv, rates, first_visible; outputs: dqkv, drates
void infer_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[1]).shape);
  add_output(g, node, 1, g.accumulate(), g.value(node.inputs[2]).shape);
}

// The products of the forward pass but for the output, and the gradients of all of them.
double flops_grad(const Graph& g, const Node& node) {
  return 3 * flops(g, node);
}

template <bool grad>
std::int64_t workspace(const Target& target, const Graph& g, const Node& node) {
  return cpu::delta_workspace(target, g.compute(), {node.as<DeltaRule>()}, grad);
}

void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).delta_rule_grad(l.queue, delta_shape(l, 3),
                                  {.dqkv = l.output<T>(0),
                                   .drates = l.output<Acc<T>>(1),
                                   .dy = l.input<T>(0),
                                   .qkv = l.input<T>(1),
                                   .rates = l.input<Acc<T>>(2),
                                   .workspace = l.workspace});
  });
}

}  // namespace

const OpDefinition delta_rule_op{.name = "delta_rule",
                                 .infer = infer,
                                 .gradient = gradient,
                                 .flops = flops,
                                 .workspace = workspace<false>,
                                 .launch = launch};
const OpDefinition delta_rule_grad_op{.name = "delta_rule_grad",
                                      .infer = infer_grad,
                                      .flops = flops_grad,
                                      .workspace = workspace<true>,
                                      .launch = launch_grad};

ValueId delta_rule(Graph& g, ValueId qkv, ValueId rates, const DeltaRule& rule,
                   const SequenceInputs& places, ValueId state) {
  return g
      .emit(OpKind::delta_rule, rule,
            {qkv, rates, places.first_visible, state, places.lengths, places.new_tokens})
      .outputs[0];
}

}  // namespace trireme::ops
