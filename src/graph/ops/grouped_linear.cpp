// Grouped linear layers of experts: rows sorted by expert, each using its expert's weight.
#include "graph/ops/definitions.h"
#include "graph/ops/fp8_grouped.h"
#include "graph/ops/group_bias.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// inputs: x, weight, offsets, bias; of the input gradient: dy, weight, offsets; of the weight
// gradient: dy, x, offsets
template <Product product>
GroupedShape shape_of(const Graph& g, const Node& node) {
  const bool is_weight_grad = product == Product::weight_grad;
  const Value& weight = g.value(is_weight_grad ? node.outputs[0] : node.inputs[1]);
  const std::int64_t blocks = node.as<GroupedAttributes>().blocks;
  const std::int64_t groups = (g.value(node.inputs[2]).shape.count() - 1) / blocks;
  return {g.value(node.inputs[0]).shape[0], weight.shape[1], weight.shape[0] / groups, groups,
          blocks};
}

// Scratch bytes for the gradient of one group, if gradients are summed as integers.
std::int64_t block_bytes(const Graph& g, const GroupedShape& shape) {
  return block_gradient_bytes(g, shape.in * shape.out);
}

template <Product product>
std::int64_t workspace(const Target& target, const Graph& g, const Node& node) {
  const GroupedShape shape = shape_of<product>(g, node);
  return (product == Product::weight_grad ? block_bytes(g, shape) : 0) +
         grouped_workspace(target, g, product, shape);
}

template <Product product>
std::shared_ptr<const void> prepare(Device& device, const Graph& g, const Node& node) {
  return make_grouped(device, g, product, shape_of<product>(g, node));
}

template <Product product>
void launch(const Launch& l) {
  const auto& grouped = *static_cast<const GroupedProduct*>(l.prepared);
  const bool sums = product == Product::weight_grad;
  if (sums && l.graph.exact_block() > 0) {
    if (!l.accumulate) l.queue.fill(l.out[0], 0, l.output_value(0).bytes());
    const GroupedShape shape = shape_of<product>(l.graph, l.node);
    return add_groups(l, 0, grouped, shape, l.in[0], l.in[1], l.input<std::int32_t>(2), l.workspace,
                      static_cast<std::byte*>(l.workspace) + block_bytes(l.graph, shape));
  }
  grouped.run(l.queue, l.out[0], l.in[0], l.in[1], l.input<std::int32_t>(2), sums && l.accumulate,
              l.workspace);
}

// Of the rows of all groups.
GroupBiasShape bias_shape_of(const Node& node, const Value& rows, const Value& offsets) {
  const auto& a = node.as<GroupedAttributes>();
  return {rows.shape[0], rows.shape[1], (offsets.shape.count() - 1) / a.blocks, a.bias_stride,
          a.blocks};
}

void launch_forward(const Launch& l) {
  launch<Product::forward>(l);
  if (!l.in[3]) return;
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).add_group_bias(
        l.queue, bias_shape_of(l.node, l.output_value(0), l.input_value(2)), l.output<T>(0),
        l.input<T>(3) + l.node.as<GroupedAttributes>().first_bias, l.input<std::int32_t>(2));
  });
}

// Counted for the maximum number of rows.
template <Product product>
double flops(const Graph& g, const Node& node) {
  const GroupedShape shape = shape_of<product>(g, node);
  return 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.in) *
         static_cast<double>(shape.out);
}

void infer_forward(Graph& g, Node& node) {
  const Value& x = g.value(node.inputs[0]);
  const Value& weight = g.value(node.inputs[1]);
  const std::int64_t groups =
      (g.value(node.inputs[2]).shape.count() - 1) / node.as<GroupedAttributes>().blocks;
  require(weight.shape.rank() == 2 && weight.shape[1] == x.shape.back() &&
              weight.shape[0] % groups == 0,
          g, node, "x is [rows, in] and the weight [experts * out, in]");
  const auto& a = node.as<GroupedAttributes>();
  require(node.inputs[3] == no_value ||
              (g.value(node.inputs[3]).shape.count() == groups * a.bias_stride &&
               a.first_bias + weight.shape[0] / groups <= a.bias_stride),
          g, node, "each expert has a bias of its outputs");
  add_output(g, node, 0, g.compute(), {x.shape[0], weight.shape[0] / groups});
}

void gradient(GradientBuilder& b, const Node& node) {
  Graph& g = b.graph();
  const ValueId x = node.inputs[0], weight = node.inputs[1], offsets = node.inputs[2],
                bias = node.inputs[3];
  const GroupedAttributes a = node.as<GroupedAttributes>();
  const ValueId dy = b.grad(node.outputs[0]);
  if (b.wants_grad(x)) {
    b.add_grad(
        x, b.emit(Phase::input_grad, OpKind::grouped_linear_input_grad, a, {dy, weight, offsets})
               .outputs[0]);
  }
  if (bias != no_value) {
    b.emit(Phase::weight_grad, OpKind::group_bias_grad, a, {dy, offsets, g.gradient_of(bias)});
  }
  b.emit(Phase::weight_grad, OpKind::grouped_linear_weight_grad, a,
         {dy, permute_again(b, Phase::weight_grad, x), offsets, g.gradient_of(weight)});
}

// inputs: dy, offsets, (gradient of the biases); output: that gradient
void infer_bias_grad(Graph&, Node& node) {
  node.outputs[0] = node.inputs[2];
  node.inputs[2] = no_value;
}

std::int64_t workspace_bias_grad(const Target&, const Graph& g, const Node& node) {
  const GroupBiasShape shape =
      bias_shape_of(node, g.value(node.inputs[0]), g.value(node.inputs[1]));
  return g.exact_block() > 0 ? group_bias_scratch(shape.cols, shape.groups, shape.blocks) : 0;
}

// Its layer has a part of the gradient, and another layer of the same experts the rest: it comes
// later, and adds.
void launch_bias_grad(const Launch& l) {
  if (!l.accumulate) l.queue.fill(l.out[0], 0, l.output_value(0).bytes());
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    add_group_bias_grad<T>(l, 0, l.node.as<GroupedAttributes>().first_bias,
                           bias_shape_of(l.node, l.input_value(0), l.input_value(1)), l.input<T>(0),
                           l.input<std::int32_t>(1), l.workspace);
  });
}

void infer_input_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(),
             {g.value(node.inputs[0]).shape[0], g.value(node.inputs[1]).shape[1]});
}

// The weight gradient is the last operand and also the output.
void infer_weight_grad(Graph&, Node& node) {
  node.outputs[0] = node.inputs[3];
  node.inputs[3] = no_value;
}

}  // namespace

const OpDefinition grouped_linear_op{.name = "grouped_linear",
                                     .infer = infer_forward,
                                     .gradient = gradient,
                                     .flops = flops<Product::forward>,
                                     .workspace = workspace<Product::forward>,
                                     .prepare = prepare<Product::forward>,
                                     .launch = launch_forward};
const OpDefinition grouped_linear_input_grad_op{.name = "grouped_linear_input_grad",
                                                .infer = infer_input_grad,
                                                .flops = flops<Product::input_grad>,
                                                .workspace = workspace<Product::input_grad>,
                                                .prepare = prepare<Product::input_grad>,
                                                .launch = launch<Product::input_grad>};
const OpDefinition grouped_linear_weight_grad_op{.name = "grouped_linear_weight_grad",
                                                 .infer = infer_weight_grad,
                                                 .flops = flops<Product::weight_grad>,
                                                 .workspace = workspace<Product::weight_grad>,
                                                 .prepare = prepare<Product::weight_grad>,
                                                 .launch = launch<Product::weight_grad>};
const OpDefinition group_bias_grad_op{.name = "group_bias_grad",
                                      .infer = infer_bias_grad,
                                      .workspace = workspace_bias_grad,
                                      .launch = launch_bias_grad};

ValueId grouped_linear(Graph& g, ValueId x, ValueId weight, ValueId offsets, std::int64_t blocks,
                       const GroupBias& bias) {
  return g
      .emit(OpKind::grouped_linear, GroupedAttributes{blocks, bias.first, bias.stride},
            {x, weight, offsets, bias.biases})
      .outputs[0];
}

}  // namespace trireme::ops
