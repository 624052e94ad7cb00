// Linear layers: the product, its two gradients as separate nodes, and the gradient of the bias.
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/workspace.h"
#include "backend/gpu_workspace.h"
#include "graph/ops/definitions.h"
#include "graph/ops/fp8_linear.h"
#include "graph/ops/leaf_linear.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

bool has_leaves(const Node& node) {
  return node.as<LinearAttributes>().leaves.count > 0;
}

// Shape of the product that a node computes; the same for all three products of a layer.
template <Product product>
LinearShape shape_of(const Graph& g, const Node& node) {
  const bool is_weight_grad = product == Product::weight_grad;
  const Value& weight = g.value(is_weight_grad ? node.outputs[0] : node.inputs[1]);
  const RowBlocks blocks(g, g.value(node.inputs[0]).shape[0]);
  return {blocks.rows, weight.shape[1], weight.shape[0]};
}

template <Product product>
std::int64_t own_workspace(const Target& target, const Graph& g, const Node& node) {
  const LinearShape shape = shape_of<product>(g, node);
  if (has_leaves(node)) return leaf_workspace(target, g, node, product, shape);
  if (rounds_to_fp8(g, node)) return fp8_workspace(target, g, node, product, shape);
  return target.device == DeviceKind::cpu
             ? cpu::linear_workspace(target, g.compute(), product, shape)
             : gpu::linear_workspace(target.device, g.compute(), product, shape);
}

template <Product product>
std::int64_t workspace(const Target& target, const Graph& g, const Node& node) {
  const bool adds_blocks = product == Product::weight_grad;
  const std::int64_t block =
      adds_blocks ? block_gradient_bytes(g, g.value(node.outputs[0]).shape.count()) : 0;
  return block + own_workspace<product>(target, g, node);
}

template <Product product>
std::shared_ptr<const void> prepare(Device& device, const Graph& g, const Node& node) {
  const LinearShape shape = shape_of<product>(g, node);
  if (has_leaves(node)) return prepare_leaves(device, g, node, product, shape);
  if (rounds_to_fp8(g, node)) return prepare_fp8(device, g, node, product, shape);
  return device.linear(g.compute(), product, shape);
}

// Returns block `number` of the rows of an operand.
template <class Byte>
Byte* rows_of(const Value& value, Byte* begin, std::int64_t rows, std::int64_t number) {
  return begin + number * rows * value.shape.back() * size_of(value.dtype);
}

// y = addend + x weight^T + bias, in two steps where the implementation does not add.
void run_onto(const Launch& l, const LinearProduct& linear, void* y, const void* addend,
              const void* x, const void* bias, std::int64_t rows) {
  if (linear.run_onto(l.queue, y, addend, x, l.in[1], bias, l.workspace)) return;
  linear.run(l.queue, y, x, l.in[1], bias, false, l.workspace);
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    T* const sum = static_cast<T*>(y);
    kernels<T>(l).add(l.queue, sum, static_cast<const T*>(addend), sum, rows,
                      l.output_value(0).shape[1], Dropout{});
  });
}

template <Product product>
void launch(const Launch& l) {
  // fuse_residual() leaves the additions of these layers alone.
  TRIREME_CHECK(product != Product::forward || !l.in[3] ||
                (!has_leaves(l.node) && !rounds_to_fp8(l.graph, l.node)));
  if (has_leaves(l.node)) return launch_leaves(l, product);
  if (rounds_to_fp8(l.graph, l.node)) return launch_fp8(l, product);
  const void* bias = nullptr;
  if constexpr (product == Product::forward) {
    if (l.node.as<LinearAttributes>().adds_bias) bias = l.in[2];
  }
  const auto& linear = *static_cast<const LinearProduct*>(l.prepared);
  const RowBlocks blocks(l.graph, l.input_value(0).shape[0]);
  for (std::int64_t b = 0; b < blocks.count; ++b) {
    std::byte* const y = rows_of(l.output_value(0), l.output<std::byte>(0), blocks.rows, b);
    const auto* const x = rows_of(l.input_value(0), l.input<const std::byte>(0), blocks.rows, b);
    if constexpr (product == Product::forward) {
      if (l.in[3]) {
        const auto* const addend =
            rows_of(l.output_value(0), l.input<const std::byte>(3), blocks.rows, b);
        run_onto(l, linear, y, addend, x, bias, blocks.rows);
        continue;
      }
    }
    linear.run(l.queue, y, x, l.in[1], bias, false, l.workspace);
  }
}

void launch_weight_grad(const Launch& l) {
  if (has_leaves(l.node)) return launch_leaves(l, Product::weight_grad);
  if (rounds_to_fp8(l.graph, l.node)) return launch_fp8(l, Product::weight_grad);
  const auto& linear = *static_cast<const LinearProduct*>(l.prepared);
  if (l.graph.exact_block() == 0)
    return linear.run(l.queue, l.out[0], l.in[0], l.in[1], nullptr, l.accumulate, l.workspace);
  auto* made = static_cast<std::byte*>(l.workspace);
  std::byte* rest = made + block_gradient_bytes(l.graph, l.output_value(0).shape.count());
  const RowBlocks blocks(l.graph, l.input_value(0).shape[0]);
  for (std::int64_t b = 0; b < blocks.count; ++b) {
    linear.run(l.queue, made,
               rows_of(l.input_value(0), l.input<const std::byte>(0), blocks.rows, b),
               rows_of(l.input_value(1), l.input<const std::byte>(1), blocks.rows, b), nullptr,
               false, rest);
    add_block(l, 0, made, !l.accumulate && b == 0);
  }
}

double flops_of(const Value& x, const Value& weight) {
  return 2.0 * x.shape[0] * weight.shape[0] * weight.shape[1];
}

// inputs: x, weight, bias and, where fuse_residual() adds it, an addend of the result
void infer_forward(Graph& g, Node& node) {
  const Value& x = g.value(node.inputs[0]);
  const Value& weight = g.value(node.inputs[1]);
  require(weight.shape.rank() == 2 && weight.shape[1] == x.shape.back(), g, node,
          "x is [rows, in] and the weight [out, in]");
  require(node.inputs[2] == no_value || g.value(node.inputs[2]).shape.count() == weight.shape[0], g,
          node, "the bias must have one element per output");
  add_output(g, node, 0, g.compute(),
             {x.shape[0], node.as<LinearAttributes>().leaves.columns(weight.shape[0])});
}

double flops_forward(const Graph& g, const Node& node) {
  return flops_of(g.value(node.inputs[0]), g.value(node.inputs[1]));
}

void gradient(GradientBuilder& b, const Node& node) {
  Graph& g = b.graph();
  const ValueId x = node.inputs[0], weight = node.inputs[1], bias = node.inputs[2];
  const Attributes attributes = node.attributes;
  const ValueId dy = b.grad(node.outputs[0]);
  if (b.wants_grad(x)) {
    b.add_grad(
        x,
        b.emit(Phase::input_grad, OpKind::linear_input_grad, attributes, {dy, weight}).outputs[0]);
  }
  b.emit(Phase::weight_grad, OpKind::linear_weight_grad, attributes,
         {dy, x, g.gradient_of(weight)});
  if (bias != no_value) {
    b.emit(Phase::weight_grad, OpKind::bias_grad, attributes, {dy, g.gradient_of(bias)});
  }
}

// inputs: dy, weight
void infer_input_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(),
             {g.value(node.inputs[0]).shape[0], g.value(node.inputs[1]).shape[1]});
}

// inputs: dy, x, (gradient of the weight); output: that gradient
void infer_weight_grad(Graph& g, Node& node) {
  const Value& dw = g.value(node.inputs[2]);
  require(
      node.as<LinearAttributes>().leaves.columns(dw.shape[0]) == g.value(node.inputs[0]).shape[1] &&
          dw.shape[1] == g.value(node.inputs[1]).shape[1],
      g, node, "the gradient must be [out, in]");
  node.outputs[0] = node.inputs[2];
  node.inputs[2] = no_value;
}

double flops_weight_grad(const Graph& g, const Node& node) {
  return flops_of(g.value(node.inputs[0]), g.value(node.outputs[0]));
}

// Of the layer whose bias it is; a router has none.
LeafCut leaves_of(const Node& node) {
  const auto* const linear = std::get_if<LinearAttributes>(&node.attributes);
  return linear ? linear->leaves : LeafCut{};
}

// inputs: dy, (gradient of the bias); output: that gradient
void infer_bias_grad(Graph& g, Node& node) {
  require(leaves_of(node).columns(g.value(node.inputs[1]).shape.count()) ==
              g.value(node.inputs[0]).shape.back(),
          g, node, "the bias must have one element per column");
  node.outputs[0] = node.inputs[1];
  node.inputs[1] = no_value;
}

std::int64_t workspace_bias_grad(const Target& target, const Graph& g, const Node& node) {
  const Value& dy = g.value(node.inputs[0]);
  return block_gradient_bytes(g, dy.shape[1]) + bias_grad_workspace(target, g, dy);
}

// Rows are of the storage type, or (of a router) of that of arithmetic.
void launch_bias_grad(const Launch& l) {
  with_compute_type(l.input_value(0).dtype, [&]<class T>(T) {
    using A = Acc<T>;
    const std::int64_t cols = l.input_value(0).shape[1];
    const RowBlocks blocks(l.graph, l.input_value(0).shape[0]);
    const bool adds_blocks = l.graph.exact_block() > 0;
    auto* scratch = static_cast<std::byte*>(l.workspace);
    A* made = adds_blocks ? reinterpret_cast<A*>(scratch) : l.output<A>(0);
    auto* rest = reinterpret_cast<A*>(scratch + block_gradient_bytes(l.graph, cols));
    const LeafCut leaves = leaves_of(l.node);
    if (leaves.shared > 0 && !l.accumulate) l.queue.fill(l.out[0], 0, l.output_value(0).bytes());
    for (std::int64_t b = 0; b < blocks.count; ++b) {
      kernels<T>(l).bias_grad(l.queue, made, !adds_blocks && l.accumulate,
                              l.input<T>(0) + b * blocks.rows * cols, blocks.rows, cols, rest);
      const std::int64_t outputs = leaves.shared > 0 ? cols / leaves.count : 0;
      for (std::int64_t leaf = 0; leaf < leaves.count && outputs > 0; ++leaf)
        add_leaf_outputs(l, leaves, leaf, made + leaf * outputs, outputs, 1);
      if (adds_blocks && outputs == 0) add_block(l, 0, made, !l.accumulate && b == 0);
    }
  });
}

}  // namespace

std::int64_t bias_grad_workspace(const Target& target, const Graph& g, const Value& dy) {
  const std::int64_t rows = RowBlocks(g, dy.shape[0]).rows;
  return target.device != DeviceKind::cpu
             ? gpu::bias_grad_workspace(rows, dy.shape[1])
             : size_of(g.accumulate()) * cpu::bias_grad_workspace(rows, dy.shape[1]);
}

const OpDefinition linear_op{.name = "linear",
                             .infer = infer_forward,
                             .gradient = gradient,
                             .flops = flops_forward,
                             .workspace = workspace<Product::forward>,
                             .prepare = prepare<Product::forward>,
                             .launch = launch<Product::forward>};
const OpDefinition linear_input_grad_op{.name = "linear_input_grad",
                                        .infer = infer_input_grad,
                                        .flops = flops_forward,
                                        .workspace = workspace<Product::input_grad>,
                                        .prepare = prepare<Product::input_grad>,
                                        .launch = launch<Product::input_grad>};
const OpDefinition linear_weight_grad_op{.name = "linear_weight_grad",
                                         .infer = infer_weight_grad,
                                         .flops = flops_weight_grad,
                                         .workspace = workspace<Product::weight_grad>,
                                         .prepare = prepare<Product::weight_grad>,
                                         .launch = launch_weight_grad};
const OpDefinition bias_grad_op{.name = "bias_grad",
                                .infer = infer_bias_grad,
                                .workspace = workspace_bias_grad,
                                .launch = launch_bias_grad};

ValueId linear(Graph& g, ValueId x, ValueId weight, ValueId bias,
               const LinearAttributes& attributes) {
  return g.emit(OpKind::linear, attributes, {x, weight, bias}).outputs[0];
}

}  // namespace trireme::ops
