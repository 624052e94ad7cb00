// Addition with dropout of the second addend, standalone dropout, multiplication by a scalar, and
// slices of rows.
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// inputs: a, b, sample ids
void infer(Graph& g, Node& node) {
  const Value b = g.value(node.inputs[1]);
  require(node.inputs[0] == no_value || g.value(node.inputs[0]).shape == b.shape, g, node,
          "the two addends differ in shape");
  add_output(g, node, 0, g.compute(), b.shape);
}

void gradient(GradientBuilder& b, const Node& node) {
  const ValueId dy = b.grad(node.outputs[0]);
  if (b.wants_grad(node.inputs[0])) b.add_grad(node.inputs[0], dy);
  const auto attributes = node.as<AddAttributes>();
  ValueId db = dy;
  if (attributes.dropout.probability > 0) {
    db = b.emit(Phase::input_grad, OpKind::add, attributes, {no_value, dy, node.inputs[2]})
             .outputs[0];
  }
  b.add_grad(node.inputs[1], db);
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Value& y = l.output_value(0);
    const auto& attributes = l.node.as<AddAttributes>();
    kernels<T>(l).add(
        l.queue, l.output<T>(0), l.input<T>(0), l.input<T>(1), y.shape[0], y.shape[1],
        dropout_at_run(attributes.dropout, l, l.input<std::int64_t>(2), attributes.seq));
  });
}

// inputs: x
void infer_scale(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[0]).shape);
}

void gradient_scale(GradientBuilder& b, const Node& node) {
  b.add_grad(node.inputs[0],
             b.emit(Phase::input_grad, OpKind::scale, node.attributes, {b.grad(node.outputs[0])})
                 .outputs[0]);
}

void launch_scale(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).scale(l.queue, l.output<T>(0), l.input<T>(0), l.output_value(0).shape.count(),
                        l.node.as<ScaleAttributes>().factor);
  });
}

// inputs: x; the output is a view of it
void infer_slice(Graph& g, Node& node) {
  const Value x = g.value(node.inputs[0]);
  const std::int64_t first = node.as<SliceAttributes>().first_row;
  const std::int64_t rows = node.as<SliceAttributes>().rows;
  require(first >= 0 && rows > 0 && first + rows <= x.shape[0], g, node,
          "rows outside the operand");
  Shape shape = x.shape;
  shape[0] = rows;
  node.outputs[0] = g.new_view(node.inputs[0], shape, first * (x.bytes() / x.shape[0]));
}

void gradient_slice(GradientBuilder& b, const Node& node) {
  b.set_rows_grad(node.inputs[0], b.grad(node.outputs[0]), node.as<SliceAttributes>().first_row);
}

}  // namespace

const OpDefinition add_op{
    .name = "add", .infer = infer, .gradient = gradient, .launch = launch, .cheap = true};
const OpDefinition scale_op{.name = "scale",
                            .infer = infer_scale,
                            .gradient = gradient_scale,
                            .launch = launch_scale,
                            .cheap = true};
const OpDefinition slice_op{
    .name = "slice", .infer = infer_slice, .gradient = gradient_slice, .cheap = true};

ValueId add(Graph& g, ValueId a, ValueId b, ValueId sample_ids, DropoutRule dropout,
            std::int64_t seq) {
  return g
      .emit(OpKind::add, AddAttributes{dropout, seq}, {a, b, ids_if_dropping(dropout, sample_ids)})
      .outputs[0];
}

ValueId scale(Graph& g, ValueId x, double factor) {
  return g.emit(OpKind::scale, ScaleAttributes{factor}, {x}).outputs[0];
}

ValueId slice(Graph& g, ValueId x, std::int64_t first_row, std::int64_t rows) {
  if (first_row == 0 && rows == g.value(x).shape[0]) return x;
  return g.emit(OpKind::slice, SliceAttributes{first_row, rows}, {x}).outputs[0];
}

}  // namespace trireme::ops
