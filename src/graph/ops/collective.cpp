// Collectives over a group's ranks, each with its dual: identity and all-reduce, all-gather and
// reduce-scatter (the f and g of Shoeybi et al. 2019, Korthikanti et al. 2022), all-to-all (its own
// dual).
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

ValueId emit_grad(GradientBuilder& b, OpKind op, CollectiveAttributes attributes, ValueId dy) {
  return b.emit(Phase::input_grad, op, attributes, {dy}).outputs[0];
}

// inputs: x; the output is a view of x with a separate gradient
void infer_identity(Graph& g, Node& node) {
  node.outputs[0] = g.new_view(node.inputs[0], g.value(node.inputs[0]).shape, 0);
}

void gradient_identity(GradientBuilder& b, const Node& node) {
  // The consumers are matrix products: dy has no other reader and can be reduced in place.
  const ValueId x = node.inputs[0], dy = b.grad(node.outputs[0]);
  const bool in_place =
      b.graph().value(x).role == Role::internal && b.graph().value(dy).role == Role::internal;
  const CollectiveAttributes attributes{node.as<CollectiveAttributes>().group, in_place};
  b.add_grad(x, emit_grad(b, OpKind::all_reduce, attributes, dy));
}

// inputs: x; with in_place the output shares its memory
void infer_reduce(Graph& g, Node& node) {
  const Value x = g.value(node.inputs[0]);
  if (node.as<CollectiveAttributes>().in_place) {
    require(x.role == Role::internal, g, node,
            "a value that crosses a segment's border cannot be reduced in place");
    node.outputs[0] = g.new_view(node.inputs[0], x.shape, 0);
  } else {
    add_output(g, node, 0, x.dtype, x.shape);
  }
}

void gradient_reduce(GradientBuilder& b, const Node& node) {
  b.add_grad(node.inputs[0], b.grad(node.outputs[0]));
}

// Type in which ranks sum: `selects` uses integers, which preserve the bits, including -0. GPUs'
// libraries have no 16-bit ones.
DType summed_type(const Launch& l) {
  const DType dtype = l.output_value(0).dtype;
  if (!l.node.as<CollectiveAttributes>().selects) return dtype;
  switch (size_of(dtype)) {
    case 2:
      return l.device.target().device == DeviceKind::cpu ? DType::u16 : DType::u8;
    case 4:
      return DType::i32;
    default:
      return DType::i64;
  }
}

void launch_reduce(const Launch& l) {
  const Value& y = l.output_value(0);
  if (l.out[0] != l.in[0]) l.queue.copy(l.out[0], l.in[0], y.bytes());
  const DType summed = summed_type(l);
  group_of(l).sum(l.queue, l.out[0], y.bytes() / size_of(summed), summed);
}

// inputs: x [rows, columns]
void infer_gather(Graph& g, Node& node) {
  const Value x = g.value(node.inputs[0]);
  Shape shape = x.shape;
  shape[0] *= node.as<CollectiveAttributes>().group.size;
  add_output(g, node, 0, x.dtype, shape);
}

void gradient_gather(GradientBuilder& b, const Node& node) {
  if (const auto& attributes = node.as<CollectiveAttributes>(); attributes.own >= 0)
    return b.add_grad(node.inputs[0],
                      emit_grad(b, OpKind::local_rows, attributes, b.grad(node.outputs[0])));
  b.add_grad(node.inputs[0], emit_grad(b, OpKind::reduce_scatter, node.as<CollectiveAttributes>(),
                                       b.grad(node.outputs[0])));
}

void launch_gather(const Launch& l) {
  const Value& x = l.input_value(0);
  group_of(l).all_gather(l.queue, l.in[0], l.out[0], x.shape.count(), x.dtype);
}

// inputs: x [rows, columns]
void infer_scatter(Graph& g, Node& node) {
  const Value x = g.value(node.inputs[0]);
  const int size = node.as<CollectiveAttributes>().group.size;
  require(x.shape[0] % size == 0, g, node, "the rows must divide among the ranks");
  Shape shape = x.shape;
  shape[0] /= size;
  add_output(g, node, 0, x.dtype, shape);
}

void gradient_scatter(GradientBuilder& b, const Node& node) {
  b.add_grad(node.inputs[0], emit_grad(b, OpKind::all_gather, node.as<CollectiveAttributes>(),
                                       b.grad(node.outputs[0])));
}

void launch_scatter(const Launch& l) {
  const Value& y = l.output_value(0);
  const DType summed = summed_type(l);
  group_of(l).reduce_scatter(l.queue, l.in[0], l.out[0], y.bytes() / size_of(summed), summed);
}

// inputs: x [rows, columns]; output: this rank's rows
void launch_own(const Launch& l) {
  const Value& y = l.output_value(0);
  const auto* all = static_cast<const std::byte*>(l.in[0]);
  l.queue.copy(l.out[0], all + l.node.as<CollectiveAttributes>().own * y.bytes(), y.bytes());
}

// inputs: x [rows, columns]; part k of the rows goes to rank k, and part k comes from it
void infer_exchange(Graph& g, Node& node) {
  const Value x = g.value(node.inputs[0]);
  require(x.shape[0] % node.as<CollectiveAttributes>().group.size == 0, g, node,
          "the rows must divide among the ranks");
  add_output(g, node, 0, x.dtype, x.shape);
}

void gradient_exchange(GradientBuilder& b, const Node& node) {
  b.add_grad(node.inputs[0], emit_grad(b, OpKind::all_to_all, node.as<CollectiveAttributes>(),
                                       b.grad(node.outputs[0])));
}

void launch_exchange(const Launch& l) {
  const Value& y = l.output_value(0);
  RankGroup& group = group_of(l);
  group.all_to_all(l.queue, l.in[0], l.out[0], y.shape.count() / group.size(), y.dtype);
}

ValueId emit(Graph& g, OpKind op, ValueId x, CollectiveAttributes attributes) {
  return attributes.group.size == 1 ? x : g.emit(op, attributes, {x}).outputs[0];
}

}  // namespace

const OpDefinition grad_all_reduce_op{.name = "grad_all_reduce",
                                      .infer = infer_identity,
                                      .gradient = gradient_identity,
                                      .cheap = true};
const OpDefinition all_reduce_op{.name = "all_reduce",
                                 .infer = infer_reduce,
                                 .gradient = gradient_reduce,
                                 .launch = launch_reduce};
// Cheap in memory, which matters here: the backward pass gathers again instead of saving all rows.
const OpDefinition all_gather_op{.name = "all_gather",
                                 .infer = infer_gather,
                                 .gradient = gradient_gather,
                                 .launch = launch_gather,
                                 .cheap = true};
const OpDefinition reduce_scatter_op{.name = "reduce_scatter",
                                     .infer = infer_scatter,
                                     .gradient = gradient_scatter,
                                     .launch = launch_scatter};
const OpDefinition local_rows_op{.name = "local_rows",
                                 .infer = infer_scatter,
                                 .gradient = gradient_scatter,
                                 .launch = launch_own};
const OpDefinition all_to_all_op{.name = "all_to_all",
                                 .infer = infer_exchange,
                                 .gradient = gradient_exchange,
                                 .launch = launch_exchange};

ValueId grad_all_reduce(Graph& g, ValueId x, GraphGroup group) {
  return emit(g, OpKind::grad_all_reduce, x, {group, false});
}

ValueId all_reduce(Graph& g, ValueId x, GraphGroup group, bool in_place) {
  return emit(g, OpKind::all_reduce, x, {group, in_place});
}

ValueId all_gather(Graph& g, ValueId x, GraphGroup group) {
  return emit(g, OpKind::all_gather, x, {group, false});
}

ValueId gather_rows(Graph& g, ValueId x, GraphGroup group, int own) {
  return emit(g, OpKind::all_gather, x, {group, false, own});
}

ValueId local_rows(Graph& g, ValueId x, GraphGroup group, int own) {
  return emit(g, OpKind::local_rows, x, {group, false, own});
}

ValueId select_rows(Graph& g, ValueId x, GraphGroup group, bool scatters) {
  return emit(g, scatters ? OpKind::reduce_scatter : OpKind::all_reduce, x,
              {.group = group, .selects = true});
}

ValueId reduce_scatter(Graph& g, ValueId x, GraphGroup group) {
  return emit(g, OpKind::reduce_scatter, x, {group, false});
}

ValueId all_to_all(Graph& g, ValueId x, GraphGroup group) {
  return emit(g, OpKind::all_to_all, x, {group, false});
}

}  // namespace trireme::ops
