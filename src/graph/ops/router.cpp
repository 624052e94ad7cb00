// The router of a mixture of experts: logits, and the choice of experts with its losses.
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// --- logits; inputs: x, weight, bias
void infer(Graph& g, Node& node) {
  const Value &x = g.value(node.inputs[0]), &weight = g.value(node.inputs[1]);
  require(weight.shape.rank() == 2 && weight.shape[1] == x.shape.back(), g, node,
          "x is [rows, in] and the weight [experts, in]");
  require(node.inputs[2] == no_value || g.value(node.inputs[2]).shape.count() == weight.shape[0], g,
          node, "the bias must have one element per expert");
  add_output(g, node, 0, g.accumulate(), {x.shape[0], weight.shape[0]});
}

double flops(const Graph& g, const Node& node) {
  const Value &x = g.value(node.inputs[0]), &weight = g.value(node.inputs[1]);
  return 2.0 * x.shape[0] * weight.shape.count();
}

void gradient(GradientBuilder& b, const Node& node) {
  const ValueId x = node.inputs[0], weight = node.inputs[1], bias = node.inputs[2];
  const ValueId dlogits = b.grad(node.outputs[0]);
  b.set_grad(x,
             b.emit(Phase::input_grad, OpKind::router_input_grad, {}, {dlogits, weight, b.grad(x)})
                 .outputs[0]);
  b.emit(Phase::weight_grad, OpKind::router_weight_grad, {},
         {dlogits, x, b.graph().gradient_of(weight)});
  if (bias != no_value)
    b.emit(Phase::weight_grad, OpKind::bias_grad, {}, {dlogits, b.graph().gradient_of(bias)});
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Value &x = l.input_value(0), &weight = l.input_value(1);
    kernels<T>(l).router(l.queue, l.output<Acc<T>>(0), l.input<T>(0), l.input<T>(1), l.input<T>(2),
                         x.shape[0], x.shape[1], weight.shape[0]);
  });
}

// inputs: dlogits, weight, gradient of x so far
void infer_input_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(),
             {g.value(node.inputs[0]).shape[0], g.value(node.inputs[1]).shape[1]});
}

double flops_grad(const Graph& g, const Node& node) {
  return 2.0 * g.value(node.inputs[0]).shape.count() * g.value(node.inputs[1]).shape[1];
}

void launch_input_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Value &dlogits = l.input_value(0), &weight = l.input_value(1);
    kernels<T>(l).router_input_grad(l.queue, l.output<T>(0), l.input<T>(2), l.input<Acc<T>>(0),
                                    l.input<T>(1), dlogits.shape[0], weight.shape[1],
                                    weight.shape[0]);
  });
}

// inputs: dlogits, x, (gradient of the weight); output: that gradient
void infer_weight_grad(Graph&, Node& node) {
  node.outputs[0] = node.inputs[2];
  node.inputs[2] = no_value;
}

std::int64_t workspace_weight_grad(const Target&, const Graph& g, const Node& node) {
  return block_gradient_bytes(g, g.value(node.outputs[0]).shape.count());
}

void launch_weight_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    const std::int64_t cols = l.input_value(1).shape[1], experts = l.input_value(0).shape[1];
    const RowBlocks blocks(l.graph, l.input_value(0).shape[0]);
    const bool adds_blocks = l.graph.exact_block() > 0;
    A* made = adds_blocks ? static_cast<A*>(l.workspace) : l.output<A>(0);
    for (std::int64_t b = 0; b < blocks.count; ++b) {
      kernels<T>(l).router_weight_grad(
          l.queue, made, !adds_blocks && l.accumulate, l.input<A>(0) + b * blocks.rows * experts,
          l.input<T>(1) + b * blocks.rows * cols, blocks.rows, cols, experts);
      if (adds_blocks) add_block(l, 0, made, !l.accumulate && b == 0);
    }
  });
}

// --- the choice; inputs: logits, bias, load, which only the gradient reads
RouterShape shape_of(const Graph& g, const Node& node, ValueId logits) {
  const auto& a = node.as<RouteAttributes>();
  const Shape& shape = g.value(logits).shape;
  return {a, shape[0], shape[1]};
}

std::int64_t all_rows_of(const RouteAttributes& a, std::int64_t rows) {
  return a.all_rows > 0 ? a.all_rows : rows;
}

RouterLosses losses_of(const Graph& g, const RouteAttributes& a) {
  RouterLosses losses = a.losses;
  losses.whole_rows = losses.unit_rows * a.context.size;
  losses.block_rows = g.exact_block();
  return losses;
}

void infer_route(Graph& g, Node& node) {
  const Shape logits = g.value(node.inputs[0]).shape;
  const auto& a = node.as<RouteAttributes>();
  require(a.top_k <= logits[1], g, node, "there are fewer experts than a row needs");
  require(a.losses.unit_rows > 0 && all_rows_of(a, logits[0]) % a.losses.unit_rows == 0, g, node,
          "losses must be over equal units of rows");
  add_output(g, node, 0, g.accumulate(), {logits[0], a.top_k});
  add_output(g, node, 1, DType::i32, {logits[0], a.top_k});
}

void launch_route(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).route(l.queue, shape_of(l.graph, l.node, l.node.inputs[0]), l.output<Acc<T>>(0),
                        l.output<std::int32_t>(1), l.input<Acc<T>>(0), l.input<T>(1));
  });
}

// The places, which tell what was dropped, come from the dispatch that reads the choice.
ValueId places_of(const Graph& g, ValueId chosen) {
  for (const Node& node : g.forward) {
    if (node.op == OpKind::dispatch && node.inputs[0] == chosen) return node.outputs[0];
  }
  fail("route: nothing dispatches the choice");
}

// The choices of whole units by expert, of which ranks may have some rows each: sums of integers.
ValueId counts_of_units(GradientBuilder& b, const Node& node) {
  const auto a = node.as<RouteAttributes>();
  if (a.losses.aux_coeff == 0 || node.inputs[2] != no_value) return no_value;
  ValueId counts = b.emit(Phase::input_grad, OpKind::routed_tokens, a,
                          {node.inputs[0], node.outputs[1], node.inputs[1]})
                       .outputs[0];
  for (const GraphGroup& group : {a.tensor, a.context}) {
    if (group.size == 1) continue;
    counts =
        b.emit(Phase::input_grad, OpKind::all_reduce, CollectiveAttributes{group, true}, {counts})
            .outputs[0];
  }
  return counts;
}

void gradient_route(GradientBuilder& b, const Node& node) {
  const ValueId logits = node.inputs[0], chosen = node.outputs[1], load = node.inputs[2];
  const auto gradient_of = [&](ValueId parameter) {
    return parameter == no_value ? no_value : b.graph().gradient_of(parameter);
  };
  const ValueId dbias = gradient_of(node.inputs[1]), dload = gradient_of(load);
  const RouteAttributes a = node.as<RouteAttributes>();
  const ValueId dweights = b.grad(node.outputs[0]), counts = counts_of_units(b, node);
  b.add_grad(logits, b.emit(Phase::input_grad, OpKind::route_grad, a,
                            {dweights, logits, chosen, places_of(b.graph(), chosen), counts, load,
                             dbias, dload})
                         .outputs[0]);
}

// inputs: logits, chosen, bias, which is not read; output: choices by plain score [units, experts]
void infer_choices(Graph& g, Node& node) {
  const Shape logits = g.value(node.inputs[0]).shape;
  const auto& a = node.as<RouteAttributes>();
  add_output(g, node, 0, DType::i64, {all_rows_of(a, logits[0]) / a.losses.unit_rows, logits[1]});
}

void launch_choices(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const auto& a = l.node.as<RouteAttributes>();
    kernels<T>(l).routed_tokens(
        l.queue, shape_of(l.graph, l.node, l.node.inputs[0]), losses_of(l.graph, a),
        l.output_value(0).shape[0], a.groups == 1 && l.node.inputs[2] == no_value,
        l.output<std::int64_t>(0), l.input<Acc<T>>(0), l.input<std::int32_t>(1));
  });
}

// inputs: dweights, logits, chosen, places, counts of whole units with an auxiliary loss of them,
// load, (gradients of bias and load); outputs: dlogits, those gradients
void infer_route_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.accumulate(), g.value(node.inputs[1]).shape);
  for (const int counted : {0, 1}) {
    node.outputs[1 + counted] = node.inputs[6 + counted];
    node.inputs[6 + counted] = no_value;
  }
}

// Bytes of what one block counts, for bias and load each.
std::int64_t workspace_route_grad(const Target&, const Graph& g, const Node& node) {
  if (node.outputs[1] == no_value && node.outputs[2] == no_value) return 0;
  return 2 * block_gradient_bytes(g, g.value(node.outputs[0]).shape[1]);
}

void launch_route_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    const auto& a = l.node.as<RouteAttributes>();
    TRIREME_CHECK(l.in[4] || l.in[5] || a.losses.aux_coeff == 0);
    const bool adds_block = l.graph.exact_block() > 0;
    const std::int64_t block = block_gradient_bytes(l.graph, l.output_value(0).shape[1]);
    // Destination of a count: the sums, or first scratch.
    const auto target = [&](int counted) -> A* {
      if (!l.out[1 + counted] || !adds_block) return l.output<A>(1 + counted);
      return reinterpret_cast<A*>(static_cast<std::byte*>(l.workspace) + counted * block);
    };
    kernels<T>(l).route_grad(l.queue, shape_of(l.graph, l.node, l.node.inputs[1]),
                             losses_of(l.graph, a),
                             {.dlogits = l.output<A>(0),
                              .dbias = target(0),
                              .dload = target(1),
                              .accumulate = !adds_block && l.accumulate,
                              .dweights = l.input<A>(0),
                              .logits = l.input<A>(1),
                              .chosen = l.input<std::int32_t>(2),
                              .places = l.input<std::int32_t>(3),
                              .counts = l.input<std::int64_t>(4),
                              .load = l.input<T>(5),
                              .block = l.step,
                              .layer = l.layer});
    for (const int counted : {0, 1})
      if (adds_block && l.out[1 + counted])
        add_block(l, 1 + counted, target(counted), !l.accumulate);
  });
}

}  // namespace

const OpDefinition router_op{
    .name = "router", .infer = infer, .gradient = gradient, .flops = flops, .launch = launch};
const OpDefinition router_input_grad_op{.name = "router_input_grad",
                                        .infer = infer_input_grad,
                                        .flops = flops_grad,
                                        .launch = launch_input_grad};
const OpDefinition router_weight_grad_op{.name = "router_weight_grad",
                                         .infer = infer_weight_grad,
                                         .flops = flops_grad,
                                         .workspace = workspace_weight_grad,
                                         .launch = launch_weight_grad};
const OpDefinition route_op{.name = "route",
                            .infer = infer_route,
                            .gradient = gradient_route,
                            .launch = launch_route,
                            .cheap = true};
const OpDefinition route_grad_op{.name = "route_grad",
                                 .infer = infer_route_grad,
                                 .workspace = workspace_route_grad,
                                 .launch = launch_route_grad};
const OpDefinition routed_tokens_op{
    .name = "routed_tokens", .infer = infer_choices, .launch = launch_choices};

ValueId router(Graph& g, ValueId x, ValueId weight, ValueId bias) {
  return g.emit(OpKind::router, {}, {x, weight, bias}).outputs[0];
}

Routes route(Graph& g, ValueId logits, const RouteAttributes& attributes, ValueId bias,
             ValueId load) {
  const Node& node = g.emit(OpKind::route, attributes, {logits, bias, load});
  return {node.outputs[0], node.outputs[1]};
}

}  // namespace trireme::ops
