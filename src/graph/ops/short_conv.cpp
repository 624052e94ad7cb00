// Short causal convolution of linear attention.
#include "backend/cpu/kernels.h"
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

ShortConvShape conv_shape(const Launch& l, int first_visible) {
  return {l.node.as<ShortConvRule>(), {.first_visible = l.input<std::int32_t>(first_visible)}};
}

// inputs: x, weight, (bias), first_visible, (cached inputs, lengths, new tokens)
void infer(Graph& g, Node& node) {
  const auto& rule = node.as<ShortConvRule>();
  const Value x = g.value(node.inputs[0]);
  require(x.shape.rank() == 2 && x.shape[0] == rule.batch * rule.seq && x.shape[1] == rule.channels,
          g, node, "x must be [batch * seq, channels]");
  require(g.value(node.inputs[1]).shape.count() == rule.channels * rule.width, g, node,
          "the weight must be [channels, width]");
  require(node.inputs[2] == no_value || g.value(node.inputs[2]).shape.count() == rule.channels, g,
          node, "the bias must be [channels]");
  add_output(g, node, 0, g.compute(), x.shape);
}

void gradient(GradientBuilder& b, const Node& node) {
  const ValueId dy = b.grad(node.outputs[0]), x = node.inputs[0], weight = node.inputs[1],
                bias = node.inputs[2], first_visible = node.inputs[3];
  TRIREME_CHECK(node.inputs[4] == no_value);
  const Attributes rule = node.attributes;
  if (b.wants_grad(x))
    b.add_grad(x, b.emit(Phase::input_grad, OpKind::short_conv_input_grad, rule,
                         {dy, x, weight, bias, first_visible})
                      .outputs[0]);
  b.emit(Phase::weight_grad, OpKind::short_conv_weight_grad, rule,
         {dy, x, weight, bias, first_visible, b.graph().gradient_of(weight),
          bias == no_value ? no_value : b.graph().gradient_of(bias)});
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    ShortConvShape shape = conv_shape(l, 3);
    shape.places.lengths = l.input<std::int32_t>(5);
    shape.places.new_tokens = l.input<std::int32_t>(6);
    kernels<T>(l).short_conv(l.queue, shape, l.output<T>(0), l.input<T>(0), l.input<T>(1),
                             l.input<T>(2), l.input<T>(4));
  });
}

// inputs: dy, x, weight, (bias), first_visible
void infer_input_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[1]).shape);
}

void launch_input_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).short_conv_input_grad(l.queue, conv_shape(l, 4), l.output<T>(0), l.input<T>(0),
                                        l.input<T>(1), l.input<T>(2), l.input<T>(3));
  });
}

// inputs: dy, x, weight, (bias), first_visible; outputs: the gradients of the weight and any bias,
// given as inputs
void infer_weight_grad(Graph&, Node& node) {
  for (const int i : {0, 1}) {
    node.outputs[i] = node.inputs[5 + i];
    node.inputs[5 + i] = no_value;
  }
}

std::int64_t workspace_weight_grad(const Target&, const Graph& g, const Node& node) {
  const auto& rule = node.as<ShortConvRule>();
  return block_gradient_bytes(g, rule.channels * rule.width) +
         block_gradient_bytes(g, rule.channels) +
         size_of(g.accumulate()) *
             cpu::norm_grad_workspace(RowBlocks(g, rule.batch * rule.seq).rows,
                                      rule.channels * (rule.width + 1));
}

void launch_weight_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    const ShortConvShape shape = conv_shape(l, 4);
    const RowBlocks blocks(l.graph, shape.batch * shape.seq);
    const bool exact = l.graph.exact_block() > 0;
    auto* const memory = static_cast<std::byte*>(l.workspace);
    auto* const biases = memory + block_gradient_bytes(l.graph, shape.channels * shape.width);
    auto* const rest = biases + block_gradient_bytes(l.graph, shape.channels);
    const bool has_bias = l.node.outputs[1] != no_value;
    A* const of_weight = exact ? reinterpret_cast<A*>(memory) : l.output<A>(0);
    A* const of_bias = exact ? reinterpret_cast<A*>(biases) : has_bias ? l.output<A>(1) : nullptr;
    for (std::int64_t b = 0; b < blocks.count; ++b) {
      kernels<T>(l).short_conv_weight_grad(l.queue, shape,
                                           {.dweight = of_weight,
                                            .dbias = has_bias ? of_bias : nullptr,
                                            .accumulate = !exact && l.accumulate,
                                            .dy = l.input<T>(0),
                                            .x = l.input<T>(1),
                                            .weight = l.input<T>(2),
                                            .bias = l.input<T>(3),
                                            .workspace = reinterpret_cast<A*>(rest)},
                                           b * blocks.rows, blocks.rows);
      if (!exact) continue;
      add_block(l, 0, of_weight, !l.accumulate && b == 0);
      if (has_bias) add_block(l, 1, of_bias, !l.accumulate && b == 0);
    }
  });
}

}  // namespace

const OpDefinition short_conv_op{
    .name = "short_conv", .infer = infer, .gradient = gradient, .launch = launch, .cheap = true};
const OpDefinition short_conv_input_grad_op{
    .name = "short_conv_input_grad", .infer = infer_input_grad, .launch = launch_input_grad};
const OpDefinition short_conv_weight_grad_op{.name = "short_conv_weight_grad",
                                             .infer = infer_weight_grad,
                                             .workspace = workspace_weight_grad,
                                             .launch = launch_weight_grad};

ValueId short_conv(Graph& g, ValueId x, ValueId weight, ValueId bias, const ShortConvRule& rule,
                   const SequenceInputs& places, ValueId inputs) {
  return g
      .emit(OpKind::short_conv, rule,
            {x, weight, bias, places.first_visible, inputs, places.lengths, places.new_tokens})
      .outputs[0];
}

}  // namespace trireme::ops
