// Gates of heads: of attention (Qwen3-Next), and with a norm before them (linear attention of the
// gated delta net) or after them (Mamba-2).
#include <algorithm>

#include "backend/cpu/kernels.h"
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

GateHeadsShape gate_shape(const GateHeadsAttributes& a, const Value& x) {
  const std::int64_t columns = x.shape.back();
  return {a, x.shape[0], columns / a.head_dim, columns};
}

// inputs: x, gate, weight
void infer(Graph& g, Node& node) {
  const auto& a = node.as<GateHeadsAttributes>();
  const Value x = g.value(node.inputs[0]);
  require(x.shape.back() % a.head_dim == 0 && g.value(node.inputs[1]).shape == x.shape, g, node,
          "x and gate must be [rows, heads * head_dim]");
  const std::int64_t weights = a.weights(x.shape.back() / a.head_dim);
  require(a.norm ? g.value(node.inputs[2]).shape.count() == weights : node.inputs[2] == no_value, g,
          node, "the weight of the norm has head_dim elements, or those of all heads");
  add_output(g, node, 0, g.compute(), x.shape);
}

void gradient(GradientBuilder& b, const Node& node) {
  const ValueId x = node.inputs[0], gate = node.inputs[1], weight = node.inputs[2];
  const ValueId dweight = weight == no_value ? no_value : b.graph().gradient_of(weight);
  const Node& grad = b.emit(Phase::input_grad, OpKind::gate_heads_grad, node.attributes,
                            {b.grad(node.outputs[0]), x, gate, weight, dweight});
  const ValueId dx = grad.outputs[0], dgate = grad.outputs[1];
  b.add_grad(x, dx);
  b.add_grad(gate, dgate);
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).gate_heads(l.queue,
                             gate_shape(l.node.as<GateHeadsAttributes>(), l.input_value(0)),
                             l.output<T>(0), l.input<T>(0), l.input<T>(1), l.input<T>(2));
  });
}

// inputs: dy, x, gate, weight, its gradient; outputs: dx, dgate, this gradient
void infer_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[1]).shape);
  add_output(g, node, 1, g.compute(), g.value(node.inputs[2]).shape);
  node.outputs[2] = node.inputs[4];
  node.inputs[4] = no_value;
}

std::int64_t workspace_grad(const Target&, const Graph& g, const Node& node) {
  const auto& a = node.as<GateHeadsAttributes>();
  if (!a.norm) return 0;
  const Shape x = g.value(node.inputs[1]).shape;
  const std::int64_t rows = RowBlocks(g, x[0]).rows, weights = a.weights(x.back() / a.head_dim);
  return block_gradient_bytes(g, weights) +
         size_of(g.accumulate()) * cpu::norm_grad_workspace(rows, weights);
}

void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    const auto& a = l.node.as<GateHeadsAttributes>();
    GateHeadsShape shape = gate_shape(a, l.input_value(1));
    const bool exact = a.norm && l.graph.exact_block() > 0;
    auto* const memory = static_cast<std::byte*>(l.workspace);
    const std::int64_t weights = a.weights(shape.heads);
    A* const rest = exact ? reinterpret_cast<A*>(memory + block_gradient_bytes(l.graph, weights))
                          : static_cast<A*>(l.workspace);
    // Each head's own weights have no part of other leaves.
    const std::int64_t leaves = exact && !a.gates_first ? std::max<std::int64_t>(1, a.leaves) : 1;
    TRIREME_CHECK(shape.heads % leaves == 0);
    const RowBlocks blocks(l.graph, shape.rows);
    const std::int64_t count = exact ? blocks.count : 1;
    if (exact) shape.rows = blocks.rows;
    shape.heads /= leaves;
    for (std::int64_t i = 0; i < count * leaves; ++i) {
      const std::int64_t at =
          i / leaves * shape.rows * shape.stride + i % leaves * shape.heads * shape.head_dim;
      A* const made = exact ? reinterpret_cast<A*>(memory) : l.output<A>(2);
      kernels<T>(l).gate_heads_grad(l.queue, shape,
                                    {.dx = l.output<T>(0) + at,
                                     .dgate = l.output<T>(1) + at,
                                     .dweight = made,
                                     .accumulate = !exact && l.accumulate,
                                     .dy = l.input<T>(0) + at,
                                     .x = l.input<T>(1) + at,
                                     .gate = l.input<T>(2) + at,
                                     .weight = l.input<T>(3),
                                     .workspace = rest});
      if (exact) add_block(l, 2, made, !l.accumulate && i == 0);
    }
  });
}

}  // namespace

const OpDefinition gate_heads_op{
    .name = "gate_heads", .infer = infer, .gradient = gradient, .launch = launch, .cheap = true};
const OpDefinition gate_heads_grad_op{.name = "gate_heads_grad",
                                      .infer = infer_grad,
                                      .workspace = workspace_grad,
                                      .launch = launch_grad};

ValueId gate_heads(Graph& g, ValueId x, ValueId gate, ValueId weight,
                   const GateHeadsAttributes& attributes) {
  return g.emit(OpKind::gate_heads, attributes, {x, gate, weight}).outputs[0];
}

}  // namespace trireme::ops
