// LayerNorm and RMSNorm, standalone or fused with a residual addition.
#include "backend/cpu/kernels.h"
#include "backend/gpu_workspace.h"
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// inputs: x, weight, bias, delta, sample ids; outputs: y, rstd, mean (LayerNorm), sum (with delta)
enum Output { y_out, rstd_out, mean_out, sum_out };

std::int64_t sequence(const Graph& g, const Node& node) {
  const std::int64_t seq = node.as<NormAttributes>().seq;
  if (seq > 0) return seq;
  const ValueId ids = node.inputs[4];
  const std::int64_t rows = g.value(node.inputs[0]).shape[0];
  return ids == no_value ? rows : rows / g.value(ids).shape[0];
}

void infer(Graph& g, Node& node) {
  const Value x = g.value(node.inputs[0]);
  require(g.value(node.inputs[1]).shape.count() == x.shape.back(), g, node,
          "the weight must have one element per column");
  require(node.inputs[3] == no_value || g.value(node.inputs[3]).shape == x.shape, g, node,
          "the two addends differ in shape");
  add_output(g, node, y_out, g.compute(), x.shape);
  add_output(g, node, rstd_out, g.accumulate(), {x.shape[0]});
  if (node.as<NormAttributes>().kind == NormKind::layer_norm) {
    add_output(g, node, mean_out, g.accumulate(), {x.shape[0]});
  }
  if (node.inputs[3] != no_value) add_output(g, node, sum_out, g.compute(), x.shape);
}

void gradient(GradientBuilder& b, const Node& node) {
  Graph& g = b.graph();
  const auto attributes = node.as<NormAttributes>();
  const bool fused = node.inputs[3] != no_value;
  const ValueId x = fused ? node.outputs[sum_out] : node.inputs[0];
  const ValueId bias = node.inputs[2];
  const ValueId dx = b.emit(Phase::input_grad, OpKind::norm_grad, attributes,
                            {b.grad(node.outputs[y_out]), x, node.inputs[1], node.outputs[rstd_out],
                             node.outputs[mean_out], b.grad(x), g.gradient_of(node.inputs[1]),
                             bias == no_value ? no_value : g.gradient_of(bias)})
                         .outputs[0];
  if (!fused) {
    b.set_grad(x, dx);
    return;
  }
  b.add_grad(node.inputs[0], dx);
  ValueId ddelta = dx;
  if (attributes.dropout.probability > 0) {
    ddelta =
        b.emit(Phase::input_grad, OpKind::add, AddAttributes{attributes.dropout, sequence(g, node)},
               {no_value, dx, node.inputs[4]})
            .outputs[0];
  }
  b.add_grad(node.inputs[3], ddelta);
}

NormShape shape_of(const NormAttributes& attributes, const Value& x) {
  return {attributes, x.shape[0], x.shape[1]};
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    const auto& attributes = l.node.as<NormAttributes>();
    kernels<T>(l).norm(
        l.queue, shape_of(attributes, l.input_value(0)), l.output<T>(y_out), l.output<A>(mean_out),
        l.output<A>(rstd_out), l.input<T>(0), l.input<T>(1), l.input<T>(2), l.output<T>(sum_out),
        l.input<T>(3),
        dropout_at_run(attributes.dropout, l, l.input<std::int64_t>(4), sequence(l.graph, l.node)));
  });
}

// inputs: dy, x, weight, rstd, mean, gradient of x so far, (gradients of weight, bias)
// outputs: dx, gradients of weight, bias and, where fuse() adds them, of biases: the sums over the
// rows of dx and of the gradient of x so far
void infer_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[1]).shape);
  node.outputs[1] = node.inputs[6];
  node.outputs[2] = node.inputs[7];
  node.inputs[6] = node.inputs[7] = no_value;
}

std::int64_t workspace_grad(const Target& target, const Graph& g, const Node& node) {
  const Value& x = g.value(node.inputs[1]);
  const std::int64_t rows = RowBlocks(g, x.shape[0]).rows;
  const int sums = 2 + (node.outputs[3] != no_value) + (node.outputs[4] != no_value);
  const std::int64_t own =
      target.device != DeviceKind::cpu
          ? gpu::norm_grad_workspace(rows, x.shape[1], sums)
          : size_of(g.accumulate()) * cpu::norm_grad_workspace(rows, x.shape[1], sums);
  return 2 * block_gradient_bytes(g, x.shape[1]) + own;
}

// By blocks: the gradients of weight and bias are placed before the kernel's own scratch.
template <class T>
void launch_grad_blocks(const Launch& l) {
  using A = Acc<T>;
  const NormShape whole = shape_of(l.node.as<NormAttributes>(), l.input_value(1));
  const RowBlocks blocks(l.graph, whole.rows);
  const NormShape shape{whole, blocks.rows, whole.cols};
  const std::int64_t bytes = block_gradient_bytes(l.graph, whole.cols);
  auto* scratch = static_cast<std::byte*>(l.workspace);
  auto* dweight = reinterpret_cast<A*>(scratch);
  A* dbias = l.out[2] ? reinterpret_cast<A*>(scratch + bytes) : nullptr;
  for (std::int64_t b = 0; b < blocks.count; ++b) {
    const std::int64_t row = b * blocks.rows, at = row * whole.cols;
    const A* mean = l.input<A>(4);
    const T* dres = l.input<T>(5);
    kernels<T>(l).norm_grad(l.queue, shape,
                            {.dx = l.output<T>(0) + at,
                             .dweight = dweight,
                             .dbias = dbias,
                             .accumulate = false,
                             .dy = l.input<T>(0) + at,
                             .x = l.input<T>(1) + at,
                             .mean = mean ? mean + row : nullptr,
                             .rstd = l.input<A>(3) + row,
                             .weight = l.input<T>(2),
                             .dres = dres ? dres + at : nullptr,
                             .workspace = reinterpret_cast<A*>(scratch + 2 * bytes)});
    const bool overwrite = !l.accumulate && b == 0;
    add_block(l, 1, dweight, overwrite);
    if (dbias) add_block(l, 2, dbias, overwrite);
  }
}

void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    if (l.graph.exact_block() > 0) return launch_grad_blocks<T>(l);
    kernels<T>(l).norm_grad(l.queue, shape_of(l.node.as<NormAttributes>(), l.input_value(1)),
                            {.dx = l.output<T>(0),
                             .dweight = l.output<A>(1),
                             .dbias = l.output<A>(2),
                             .dx_sum = l.output<A>(3),
                             .dres_sum = l.output<A>(4),
                             .accumulate = l.accumulate,
                             .dy = l.input<T>(0),
                             .x = l.input<T>(1),
                             .mean = l.input<A>(4),
                             .rstd = l.input<A>(3),
                             .weight = l.input<T>(2),
                             .dres = l.input<T>(5),
                             .workspace = static_cast<A*>(l.workspace)});
  });
}

}  // namespace

const OpDefinition norm_op{
    .name = "norm", .infer = infer, .gradient = gradient, .launch = launch, .cheap = true};
const OpDefinition norm_grad_op{
    .name = "norm_grad", .infer = infer_grad, .workspace = workspace_grad, .launch = launch_grad};

ValueId norm(Graph& g, ValueId x, ValueId weight, ValueId bias, NormKind kind, double eps,
             bool zero_centered) {
  return g.emit(OpKind::norm, NormAttributes{{kind, eps, zero_centered}}, {x, weight, bias})
      .outputs[y_out];
}

SumAndNorm add_norm(Graph& g, ValueId x, ValueId delta, ValueId weight, ValueId bias, NormKind kind,
                    double eps, ValueId sample_ids, DropoutRule dropout, std::int64_t seq,
                    bool zero_centered) {
  const Node& node = g.emit(OpKind::norm, NormAttributes{{kind, eps, zero_centered}, dropout, seq},
                            {x, weight, bias, delta, ids_if_dropping(dropout, sample_ids)});
  return {node.outputs[sum_out], node.outputs[y_out]};
}

}  // namespace trireme::ops
