// RMSNorm of queries and keys, head by head (Dehghani et al. 2023, arXiv:2302.05442; Qwen3) or over
// all heads of a position (OLMo 2, arXiv:2501.00656).
#include "backend/cpu/kernels.h"
#include "backend/gpu_workspace.h"
#include "ops/definitions.h"
#include "ops/ops.h"
#include "ops/support.h"

namespace trireme::ops {
namespace {

HeadNormShape shape_of(const HeadNormAttributes& a, const Value& qkv) {
  return {qkv.shape[0], a.groups, a.queries_per_group, a.head_dim, a.eps, a.all_heads};
}

// inputs: qkv, query weight, key weight; outputs: y, rstd
void infer(Graph& g, Node& node) {
  const auto& a = node.as<HeadNormAttributes>();
  const Value qkv = g.value(node.inputs[0]);
  const HeadNormShape shape = shape_of(a, qkv);
  require(qkv.shape.back() == shape.qkv_cols(), g, node,
          "qkv must be [rows, groups * (queries per group + 2) * head_dim]");
  require(g.value(node.inputs[1]).shape.count() == shape.query_weights() &&
              g.value(node.inputs[2]).shape.count() == shape.key_weights(),
          g, node, "a weight must have head_dim elements, or those of all its heads");
  add_output(g, node, 0, g.compute(), qkv.shape);
  add_output(g, node, 1, g.accumulate(), {shape.rows, shape.norms()});
}

void gradient(GradientBuilder& b, const Node& node) {
  Graph& g = b.graph();
  const ValueId qkv = node.inputs[0];
  b.set_grad(qkv,
             b.emit(Phase::input_grad, OpKind::head_norm_grad, node.as<HeadNormAttributes>(),
                    {b.grad(node.outputs[0]), qkv, node.inputs[1], node.inputs[2], node.outputs[1],
                     g.gradient_of(node.inputs[1]), g.gradient_of(node.inputs[2])})
                 .outputs[0]);
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).head_norm(l.queue, shape_of(l.node.as<HeadNormAttributes>(), l.input_value(0)),
                            l.output<T>(0), l.output<Acc<T>>(1), l.input<T>(0), l.input<T>(1),
                            l.input<T>(2));
  });
}

// inputs: dy, qkv, query weight, key weight, rstd, (gradients of the weights)
// outputs: dqkv, gradients of the weights
void infer_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[1]).shape);
  node.outputs[1] = node.inputs[5];
  node.outputs[2] = node.inputs[6];
  node.inputs[5] = node.inputs[6] = no_value;
}

std::int64_t workspace_grad(const Target& target, const Graph& g, const Node& node) {
  const Value& qkv = g.value(node.inputs[1]);
  const HeadNormShape shape = shape_of(node.as<HeadNormAttributes>(), qkv);
  const std::int64_t rows = RowBlocks(g, qkv.shape[0]).rows, width = shape.query_weights();
  const std::int64_t own = target.device != DeviceKind::cpu
                               ? gpu::norm_grad_workspace(rows, width)
                               : size_of(g.accumulate()) * cpu::norm_grad_workspace(rows, width);
  return block_gradient_bytes(g, width) + block_gradient_bytes(g, shape.key_weights()) + own;
}

// The gradients of the weights go to dquery and dkey.
template <class T>
void launch_grad_rows(const Launch& l, const HeadNormShape& shape, std::int64_t first_row,
                      Acc<T>* dquery, Acc<T>* dkey, bool accumulate, void* workspace) {
  const std::int64_t at = first_row * shape.qkv_cols();
  kernels<T>(l).head_norm_grad(l.queue, shape, l.output<T>(0) + at, dquery, dkey, accumulate,
                               l.input<T>(0) + at, l.input<T>(1) + at,
                               l.input<Acc<T>>(4) + first_row * shape.norms(), l.input<T>(2),
                               l.input<T>(3), static_cast<Acc<T>*>(workspace));
}

void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    HeadNormShape shape = shape_of(l.node.as<HeadNormAttributes>(), l.input_value(1));
    const RowBlocks blocks(l.graph, shape.rows);
    if (l.graph.exact_block() == 0) {
      return launch_grad_rows<T>(l, shape, 0, l.output<A>(1), l.output<A>(2), l.accumulate,
                                 l.workspace);
    }
    // Block by block: the gradients of the weights lie in front of the kernel's own scratch.
    shape.rows = blocks.rows;
    const std::int64_t queries = block_gradient_bytes(l.graph, shape.query_weights());
    const std::int64_t both = queries + block_gradient_bytes(l.graph, shape.key_weights());
    auto* const scratch = static_cast<std::byte*>(l.workspace);
    A* const made[] = {reinterpret_cast<A*>(scratch), reinterpret_cast<A*>(scratch + queries)};
    for (std::int64_t b = 0; b < blocks.count; ++b) {
      launch_grad_rows<T>(l, shape, b * blocks.rows, made[0], made[1], false, scratch + both);
      for (const int weight : {0, 1})
        add_block(l, 1 + weight, made[weight], !l.accumulate && b == 0);
    }
  });
}

}  // namespace

const OpDefinition head_norm_op{
    .name = "head_norm", .infer = infer, .gradient = gradient, .launch = launch};
const OpDefinition head_norm_grad_op{.name = "head_norm_grad",
                                     .infer = infer_grad,
                                     .workspace = workspace_grad,
                                     .launch = launch_grad};

ValueId head_norm(Graph& g, ValueId qkv, ValueId query_weight, ValueId key_weight,
                  const HeadNormAttributes& attributes) {
  return g.emit(OpKind::head_norm, attributes, {qkv, query_weight, key_weight}).outputs[0];
}

}  // namespace trireme::ops
