// Rows of an activation picked by number, and the way back of their gradient.
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// inputs: x, row numbers
void infer(Graph& g, Node& node) {
  const Value& x = g.value(node.inputs[0]);
  require(x.shape.rank() == 2, g, node, "rows are taken from [rows, columns]");
  add_output(g, node, 0, g.compute(), {g.value(node.inputs[1]).shape.count(), x.shape[1]});
}

void gradient(GradientBuilder& b, const Node& node) {
  const std::int64_t rows = b.graph().value(node.inputs[0]).shape[0];
  b.add_grad(node.inputs[0], b.emit(Phase::input_grad, OpKind::gather_grad, GatherAttributes{rows},
                                    {b.grad(node.outputs[0]), node.inputs[1]})
                                 .outputs[0]);
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Value& y = l.output_value(0);
    kernels<T>(l).gather(l.queue, l.output<T>(0), l.input<T>(0), l.input<std::int32_t>(1),
                         y.shape[0], y.shape[1], l.input_value(0).shape[0]);
  });
}

// inputs: dy, row numbers
void infer_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(),
             {node.as<GatherAttributes>().source_rows, g.value(node.inputs[0]).shape[1]});
}

void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Value& dy = l.input_value(0);
    kernels<T>(l).gather_grad(l.queue, l.output<T>(0), l.input<T>(0), l.input<std::int32_t>(1),
                              dy.shape[0], dy.shape[1], l.output_value(0).shape[0]);
  });
}

}  // namespace

const OpDefinition gather_op{
    .name = "gather", .infer = infer, .gradient = gradient, .launch = launch, .cheap = true};
const OpDefinition gather_grad_op{
    .name = "gather_grad", .infer = infer_grad, .launch = launch_grad};

ValueId gather(Graph& g, ValueId x, ValueId row_numbers) {
  return g.emit(OpKind::gather, GatherAttributes{g.value(x).shape[0]}, {x, row_numbers}).outputs[0];
}

}  // namespace trireme::ops
