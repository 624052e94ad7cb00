// Dispatch of rows to experts, and combination of the results.
#include "backend/gpu_workspace.h"
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// --- dispatch; inputs: chosen, weights (with a capacity); outputs: places, offsets
void infer_dispatch(Graph& g, Node& node) {
  const Shape chosen = g.value(node.inputs[0]).shape;
  const auto& a = node.as<DispatchRule>();
  require(a.capacity == 0 || chosen[0] % a.unit_rows == 0, g, node,
          "a capacity is for equal units of rows");
  require(chosen[0] % a.blocks == 0, g, node, "the rows must divide into the blocks");
  add_output(g, node, 0, DType::i32, chosen);
  add_output(g, node, 1, DType::i32, {a.experts * a.blocks + 1});
}

std::int64_t workspace_dispatch(const Target& target, const Graph& g, const Node& node) {
  const auto& a = node.as<DispatchRule>();
  const Value& chosen = g.value(node.inputs[0]);
  if (target.device != DeviceKind::cpu)
    return gpu::dispatch_workspace(chosen.shape.count(), a.experts, a.blocks);
  return a.capacity > 0 ? chosen.bytes() : 0;
}

void launch_dispatch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Shape& chosen = l.input_value(0).shape;
    kernels<T>(l).dispatch(l.queue, {l.node.as<DispatchRule>(), chosen[0], chosen[1]},
                           l.output<std::int32_t>(0), l.output<std::int32_t>(1),
                           l.input<std::int32_t>(0), l.input<Acc<T>>(1),
                           static_cast<std::int32_t*>(l.workspace));
  });
}

// Shape of a permutation, from its operands: sorted rows, places of choices and expert offsets.
PermuteShape permutation(const Value& by_expert, const Value& places, const Value& offsets) {
  return {.rows = places.shape[0],
          .cols = by_expert.shape[1],
          .taken = by_expert.shape[0],
          .top_k = places.shape[1],
          .experts = offsets.shape.count() - 1};
}

// --- permute_rows; inputs: x, places, offsets, (weights)
void infer_permute(Graph& g, Node& node) {
  const Value& x = g.value(node.inputs[0]);
  require(x.shape.rank() == 2 && g.value(node.inputs[1]).shape[0] == x.shape[0], g, node,
          "x is [rows, columns] and places [rows, top_k]");
  add_output(g, node, 0, g.compute(), {node.as<PermuteAttributes>().taken, x.shape[1]});
}

void gradient_permute(GradientBuilder& b, const Node& node) {
  const ValueId x = node.inputs[0], places = node.inputs[1], offsets = node.inputs[2],
                weights = node.inputs[3], dy = b.grad(node.outputs[0]);
  if (weights == no_value) {
    b.add_grad(
        x, b.emit(Phase::input_grad, OpKind::unpermute_rows, {}, {dy, places, offsets}).outputs[0]);
    return;
  }
  // A weighted permutation and a weighted sum are each other's gradient.
  b.add_grad(
      x, b.emit(Phase::input_grad, OpKind::combine, {}, {dy, weights, places, offsets}).outputs[0]);
  b.add_grad(weights,
             b.emit(Phase::input_grad, OpKind::combine_grad, {}, {x, dy, weights, places, offsets})
                 .outputs[1]);
}

void launch_permute(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const PermuteShape shape = permutation(l.output_value(0), l.input_value(1), l.input_value(2));
    kernels<T>(l).permute_rows(l.queue, shape, l.output<T>(0), l.input<T>(0), l.input<Acc<T>>(3),
                               l.input<std::int32_t>(1), l.input<std::int32_t>(2));
  });
}

// --- its gradient, and the sum of what experts made; inputs: x, places, offsets
void gradient_unpermute(GradientBuilder& b, const Node& node) {
  const std::int64_t taken = b.graph().value(node.inputs[0]).shape[0];
  b.add_grad(node.inputs[0],
             b.emit(Phase::input_grad, OpKind::permute_rows, PermuteAttributes{taken},
                    {b.grad(node.outputs[0]), node.inputs[1], node.inputs[2]})
                 .outputs[0]);
}

void infer_unpermute(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(),
             {g.value(node.inputs[1]).shape[0], g.value(node.inputs[0]).shape[1]});
}

void launch_unpermute(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Shape& places = l.input_value(1).shape;
    kernels<T>(l).unpermute_rows(l.queue, l.output<T>(0), l.input<T>(0), l.input<std::int32_t>(1),
                                 places[0], l.output_value(0).shape[1], places[1]);
  });
}

// --- combine; inputs: x, weights, places, offsets
void infer_combine(Graph& g, Node& node) {
  require(g.value(node.inputs[1]).shape == g.value(node.inputs[2]).shape, g, node,
          "weights and places differ in shape");
  add_output(g, node, 0, g.compute(),
             {g.value(node.inputs[2]).shape[0], g.value(node.inputs[0]).shape[1]});
}

void gradient_combine(GradientBuilder& b, const Node& node) {
  const Node& grad = b.emit(
      Phase::input_grad, OpKind::combine_grad, {},
      {b.grad(node.outputs[0]), node.inputs[0], node.inputs[1], node.inputs[2], node.inputs[3]});
  const ValueId dx = grad.outputs[0], dweights = grad.outputs[1];
  b.add_grad(node.inputs[0], dx);
  b.add_grad(node.inputs[1], dweights);
}

void launch_combine(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Shape& places = l.input_value(2).shape;
    kernels<T>(l).combine_rows(l.queue, l.output<T>(0), l.input<T>(0), l.input<Acc<T>>(1),
                               l.input<std::int32_t>(2), places[0], l.output_value(0).shape[1],
                               places[1]);
  });
}

// inputs: dy, x, weights, places, offsets; outputs: dx, dweights
void infer_combine_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[1]).shape);
  add_output(g, node, 1, g.accumulate(), g.value(node.inputs[2]).shape);
}

void launch_combine_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).combine_rows_grad(
        l.queue, permutation(l.input_value(1), l.input_value(3), l.input_value(4)),
        {.dx = l.output<T>(0),
         .dweights = l.output<Acc<T>>(1),
         .dy = l.input<T>(0),
         .x = l.input<T>(1),
         .weights = l.input<Acc<T>>(2),
         .places = l.input<std::int32_t>(3),
         .offsets = l.input<std::int32_t>(4)});
  });
}

// --- a gate for each row; inputs: x, gates
void infer_gate(Graph& g, Node& node) {
  const Value& x = g.value(node.inputs[0]);
  require(g.value(node.inputs[1]).shape.count() == x.shape[0], g, node, "a row has one gate");
  add_output(g, node, 0, g.compute(), x.shape);
}

void gradient_gate(GradientBuilder& b, const Node& node) {
  const Node& grad = b.emit(Phase::input_grad, OpKind::gate_rows_grad, {},
                            {b.grad(node.outputs[0]), node.inputs[0], node.inputs[1]});
  const ValueId dx = grad.outputs[0], dgates = grad.outputs[1];
  b.add_grad(node.inputs[0], dx);
  b.add_grad(node.inputs[1], dgates);
}

void launch_gate(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Shape& x = l.input_value(0).shape;
    kernels<T>(l).gate_rows(l.queue, l.output<T>(0), l.input<T>(0), l.input<Acc<T>>(1), x[0], x[1]);
  });
}

// inputs: dy, x, gates; outputs: dx, dgates
void infer_gate_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[1]).shape);
  add_output(g, node, 1, g.accumulate(), g.value(node.inputs[2]).shape);
}

void launch_gate_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Shape& x = l.input_value(1).shape;
    kernels<T>(l).gate_rows_grad(l.queue, l.output<T>(0), l.output<Acc<T>>(1), l.input<T>(0),
                                 l.input<T>(1), l.input<Acc<T>>(2), x[0], x[1]);
  });
}

// --- two values in shares; inputs: a, b, logits
void infer_mix(Graph& g, Node& node) {
  const Value &a = g.value(node.inputs[0]), &b = g.value(node.inputs[1]);
  require(a.shape == b.shape && g.value(node.inputs[2]).shape == Shape({a.shape[0], 2}), g, node,
          "both are [rows, columns], and a row has two logits");
  add_output(g, node, 0, g.compute(), a.shape);
}

void gradient_mix(GradientBuilder& b, const Node& node) {
  const Node& grad =
      b.emit(Phase::input_grad, OpKind::mix_rows_grad, {},
             {b.grad(node.outputs[0]), node.inputs[0], node.inputs[1], node.inputs[2]});
  const std::array made = grad.outputs;
  for (int i = 0; i < 3; ++i) b.add_grad(node.inputs[i], made[i]);
}

void launch_mix(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Shape& y = l.output_value(0).shape;
    kernels<T>(l).mix_rows(l.queue, l.output<T>(0), l.input<T>(0), l.input<T>(1), l.input<T>(2),
                           y[0], y[1]);
  });
}

// inputs: dy, a, b, logits; outputs: da, db, dlogits
void infer_mix_grad(Graph& g, Node& node) {
  for (int i = 0; i < 3; ++i)
    add_output(g, node, i, g.compute(), g.value(node.inputs[1 + i]).shape);
}

void launch_mix_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Shape& y = l.output_value(0).shape;
    kernels<T>(l).mix_rows_grad(l.queue, l.output<T>(0), l.output<T>(1), l.output<T>(2),
                                l.input<T>(0), l.input<T>(1), l.input<T>(2), l.input<T>(3), y[0],
                                y[1]);
  });
}

}  // namespace

ValueId permute_again(GradientBuilder& b, Phase phase, ValueId x) {
  for (const Node& node : b.graph().forward) {
    if (node.op != OpKind::permute_rows || node.outputs[0] != x) continue;
    const auto inputs = node.inputs;
    return b
        .emit(phase, OpKind::permute_rows, node.attributes,
              {inputs[0], inputs[1], inputs[2], inputs[3]})
        .outputs[0];
  }
  return x;
}

const OpDefinition dispatch_op{.name = "dispatch",
                               .infer = infer_dispatch,
                               .workspace = workspace_dispatch,
                               .launch = launch_dispatch,
                               .cheap = true};
const OpDefinition permute_rows_op{.name = "permute_rows",
                                   .infer = infer_permute,
                                   .gradient = gradient_permute,
                                   .launch = launch_permute,
                                   .cheap = true};
const OpDefinition unpermute_rows_op{.name = "unpermute_rows",
                                     .infer = infer_unpermute,
                                     .gradient = gradient_unpermute,
                                     .launch = launch_unpermute};
const OpDefinition combine_op{.name = "combine",
                              .infer = infer_combine,
                              .gradient = gradient_combine,
                              .launch = launch_combine};
const OpDefinition combine_grad_op{
    .name = "combine_grad", .infer = infer_combine_grad, .launch = launch_combine_grad};

const OpDefinition gate_rows_op{.name = "gate_rows",
                                .infer = infer_gate,
                                .gradient = gradient_gate,
                                .launch = launch_gate,
                                .cheap = true};
const OpDefinition gate_rows_grad_op{
    .name = "gate_rows_grad", .infer = infer_gate_grad, .launch = launch_gate_grad};

const OpDefinition mix_rows_op{.name = "mix_rows",
                               .infer = infer_mix,
                               .gradient = gradient_mix,
                               .launch = launch_mix,
                               .cheap = true};
const OpDefinition mix_rows_grad_op{
    .name = "mix_rows_grad", .infer = infer_mix_grad, .launch = launch_mix_grad};

Places dispatch(Graph& g, const Routes& routes, const DispatchRule& attributes) {
  const ValueId weights = attributes.capacity > 0 ? routes.weights : no_value;
  const Node& node = g.emit(OpKind::dispatch, attributes, {routes.chosen, weights});
  return {node.outputs[0], node.outputs[1]};
}

ValueId permute_rows(Graph& g, ValueId x, const Places& places, std::int64_t taken,
                     ValueId weights) {
  return g
      .emit(OpKind::permute_rows, PermuteAttributes{taken},
            {x, places.places, places.offsets, weights})
      .outputs[0];
}

ValueId unpermute_rows(Graph& g, ValueId x, const Places& places) {
  return g.emit(OpKind::unpermute_rows, {}, {x, places.places, places.offsets}).outputs[0];
}

ValueId gate_rows(Graph& g, ValueId x, ValueId gates) {
  return g.emit(OpKind::gate_rows, {}, {x, gates}).outputs[0];
}

ValueId mix_rows(Graph& g, ValueId a, ValueId b, ValueId logits) {
  return g.emit(OpKind::mix_rows, {}, {a, b, logits}).outputs[0];
}

ValueId combine(Graph& g, ValueId x, const Routes& routes, const Places& places) {
  return g.emit(OpKind::combine, {}, {x, routes.weights, places.places, places.offsets}).outputs[0];
}

}  // namespace trireme::ops
