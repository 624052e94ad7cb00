// Logit soft-capping: cap * tanh(x / cap) (Gemma 2, arXiv:2408.00118).
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// inputs: x
void infer(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[0]).shape);
}

// Computed from x: the loss overwrites y with its gradient in place.
void gradient(GradientBuilder& b, const Node& node) {
  b.add_grad(node.inputs[0], b.emit(Phase::input_grad, OpKind::soft_cap_grad, node.attributes,
                                    {b.grad(node.outputs[0]), node.inputs[0]})
                                 .outputs[0]);
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).soft_cap(l.queue, l.output<T>(0), l.input<T>(0), l.output_value(0).shape.count(),
                           l.node.as<SoftCapAttributes>().cap);
  });
}

// inputs: dy, x
void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).soft_cap_grad(l.queue, l.output<T>(0), l.input<T>(0), l.input<T>(1),
                                l.output_value(0).shape.count(),
                                l.node.as<SoftCapAttributes>().cap);
  });
}

}  // namespace

const OpDefinition soft_cap_op{
    .name = "soft_cap", .infer = infer, .gradient = gradient, .launch = launch, .cheap = true};
const OpDefinition soft_cap_grad_op{.name = "soft_cap_grad", .infer = infer, .launch = launch_grad};

ValueId soft_cap(Graph& g, ValueId x, double cap) {
  return g.emit(OpKind::soft_cap, SoftCapAttributes{cap}, {x}).outputs[0];
}

}  // namespace trireme::ops
