// A reordering copy, for data that ranks exchange.
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

std::int64_t copied_by(const ReorderAttributes& a) {
  std::int64_t copied = 0;
  for (int p = 0; p < a.parts; ++p) {
    const BlockCopy& copy = a.copies[p];
    copied += copy.counts[0] * copy.counts[1] * copy.counts[2] * copy.width;
  }
  return copied;
}

// inputs: x
void infer(Graph& g, Node& node) {
  const auto& a = node.as<ReorderAttributes>();
  require(a.rest_is_zero || copied_by(a) == a.rows * a.columns, g, node,
          "the parts must make the whole result");
  add_output(g, node, 0, g.value(node.inputs[0]).dtype, {a.rows, a.columns});
}

// The inverse reordering; omitted elements have no gradient.
void gradient(GradientBuilder& b, const Node& node) {
  ReorderAttributes back = node.as<ReorderAttributes>();
  const Value& x = b.graph().value(node.inputs[0]);
  back.rows = x.shape[0];
  back.columns = x.shape[1];
  back.rest_is_zero = copied_by(back) < x.shape.count();
  for (BlockCopy& copy : back.copies) copy = copy.inverse();
  b.add_grad(
      node.inputs[0],
      b.emit(Phase::input_grad, OpKind::reorder, back, {b.grad(node.outputs[0])}).outputs[0]);
}

void launch(const Launch& l) {
  const auto& a = l.node.as<ReorderAttributes>();
  if (a.rest_is_zero) l.queue.fill(l.out[0], 0, l.output_value(0).bytes());
  with_compute_type(l.output_value(0).dtype, [&]<class T>(T) {
    for (int p = 0; p < a.parts; ++p)
      kernels<T>(l).copy_blocks(l.queue, l.output<T>(0), l.input<T>(0), a.copies[p]);
  });
}

}  // namespace

const OpDefinition reorder_op{
    .name = "reorder", .infer = infer, .gradient = gradient, .launch = launch, .cheap = true};

ValueId reorder(Graph& g, ValueId x, const ReorderAttributes& order) {
  return g.emit(OpKind::reorder, order, {x}).outputs[0];
}

}  // namespace trireme::ops
