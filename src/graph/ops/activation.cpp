// Element-wise activations, and gated ones, whose output has half the input's width.
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// inputs: x
void infer(Graph& g, Node& node) {
  Shape shape = g.value(node.inputs[0]).shape;
  if (is_gated(node.as<ActivationAttributes>().rule.kind)) {
    require(shape[1] % 2 == 0, g, node, "a gate needs an even number of columns");
    shape[1] /= 2;
  }
  add_output(g, node, 0, g.compute(), shape);
}

void gradient(GradientBuilder& b, const Node& node) {
  b.add_grad(node.inputs[0], b.emit(Phase::input_grad, OpKind::activation_grad, node.attributes,
                                    {b.grad(node.outputs[0]), node.inputs[0]})
                                 .outputs[0]);
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Value& y = l.output_value(0);
    kernels<T>(l).activation(l.queue, l.node.as<ActivationAttributes>().rule, l.output<T>(0),
                             l.input<T>(0), y.shape[0], y.shape[1]);
  });
}

// inputs: dy, x; outputs: dx and, where fuse() adds it, the gradient of the bias that x contains
void infer_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[1]).shape);
}

std::int64_t workspace_grad(const Target& target, const Graph& g, const Node& node) {
  if (node.outputs[1] == no_value) return 0;
  return bias_grad_workspace(target, g, g.value(node.inputs[1]));
}

void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    const Value& dy = l.input_value(0);
    kernels<T>(l).activation_grad(l.queue, l.node.as<ActivationAttributes>().rule,
                                  {.dx = l.output<T>(0),
                                   .dy = l.input<T>(0),
                                   .x = l.input<T>(1),
                                   .dbias = l.output<A>(1),
                                   .accumulate = l.accumulate,
                                   .workspace = static_cast<A*>(l.workspace)},
                                  dy.shape[0], dy.shape[1]);
  });
}

}  // namespace

const OpDefinition activation_op{
    .name = "activation", .infer = infer, .gradient = gradient, .launch = launch, .cheap = true};
const OpDefinition activation_grad_op{.name = "activation_grad",
                                      .infer = infer_grad,
                                      .workspace = workspace_grad,
                                      .launch = launch_grad};

ValueId activation(Graph& g, ValueId x, const ActivationRule& rule) {
  return g.emit(OpKind::activation, ActivationAttributes{rule}, {x}).outputs[0];
}

}  // namespace trireme::ops
