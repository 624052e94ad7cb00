// RMSNorm of queries and keys, per head (Dehghani et al. 2023, arXiv:2302.05442; Qwen3) or over all
// heads of a position (OLMo 2, arXiv:2501.00656). In the latter case ranks that share a position's
// heads sum two numbers per row for the norm and its gradient.
#include <algorithm>

#include "backend/cpu/kernels.h"
#include "backend/gpu_workspace.h"
#include "base/line_parts.h"
#include "graph/ops/definitions.h"
#include "graph/ops/leaf_linear.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

HeadNormShape shape_of(const HeadNormAttributes& a, const Value& qkv) {
  return {a, qkv.shape[0]};
}

// inputs: x, and for the gradient dy, query weight, key weight; outputs: sums
void infer_sums(Graph& g, Node& node) {
  add_output(g, node, 0, g.accumulate(), {g.value(node.inputs[0]).shape[0], 2});
}

// Whether the sums are made of leaves, those of all ranks included.
bool sums_leaves(const HeadNormAttributes& a) {
  return a.all_heads && a.leaves > 0;
}

// Layout of the scratch for sums of leaves: a leaf's heads of x and of dy, and the sums.
struct SumScratch {
  HeadNormShape leaf;
  std::int64_t dy = 0, sums = 0, bytes = 0;

  SumScratch(const Graph& g, const Node& node)
      : leaf(shape_of(node.as<HeadNormAttributes>(), g.value(node.inputs[0]))) {
    const auto& a = node.as<HeadNormAttributes>();
    if (!sums_leaves(a)) return;
    TRIREME_CHECK(leaf.groups % a.leaves == 0);
    leaf.groups /= a.leaves;
    const std::int64_t heads = leaf.rows * leaf.qkv_cols() * size_of(g.compute());
    LineParts parts;
    parts.add(heads);
    dy = parts.add(node.inputs[1] == no_value ? 0 : heads);
    sums = parts.add(LeafTree::buffers(a.leaves) * leaf.rows * 2 * size_of(g.accumulate()));
    bytes = parts.bytes;
  }
};

std::int64_t workspace_sums(const Target&, const Graph& g, const Node& node) {
  return SumScratch(g, node).bytes;
}

template <class T>
void launch_sums_of_leaves(const Launch& l) {
  using A = Acc<T>;
  const auto& a = l.node.as<HeadNormAttributes>();
  const SumScratch scratch(l.graph, l.node);
  const HeadNormShape& leaf = scratch.leaf;
  const std::int64_t columns = leaf.qkv_cols(), count = leaf.rows * 2;
  auto* const memory = static_cast<std::byte*>(l.workspace);
  const auto heads_of = [&](int input, std::int64_t number, std::int64_t at) -> const T* {
    if (!l.in[input]) return nullptr;
    auto* const heads = reinterpret_cast<T*>(memory + at);
    kernels<T>(l).copy_blocks(l.queue, heads, l.input<T>(input),
                              {.counts = {leaf.rows, 1, 1},
                               .dst_strides = {columns, 0, 0},
                               .src_strides = {columns * a.leaves, 0, 0},
                               .src_first = number * columns,
                               .width = columns});
    return heads;
  };
  const auto weights_of = [&](int input, std::int64_t first) -> const T* {
    return l.in[input] ? l.input<T>(input) + first : nullptr;
  };
  LeafTree tree(l, l.graph.accumulate(), count, memory + scratch.sums);
  for (std::int64_t i = 0; i < a.leaves; ++i) {
    kernels<T>(l).head_sums(l.queue, leaf, static_cast<A*>(tree.next()), heads_of(0, i, 0),
                            heads_of(1, i, scratch.dy), weights_of(2, i * leaf.query_weights()),
                            weights_of(3, i * leaf.key_weights()));
    tree.take();
  }
  if (a.group.size > 1)
    group_of(l, a.group).sum_in_tree(l.queue, memory + scratch.sums, count, l.graph.accumulate());
  l.queue.copy(l.out[0], memory + scratch.sums, count * size_of(l.graph.accumulate()));
}

void launch_sums(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    if (sums_leaves(l.node.as<HeadNormAttributes>())) return launch_sums_of_leaves<T>(l);
    kernels<T>(l).head_sums(l.queue, shape_of(l.node.as<HeadNormAttributes>(), l.input_value(0)),
                            l.output<Acc<T>>(0), l.input<T>(0), l.input<T>(1), l.input<T>(2),
                            l.input<T>(3));
  });
}

// inputs: qkv, query weight, key weight, (sums of all ranks); outputs: y, rstd
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

// Emits the full gradient of qkv, including the path through the sums.
void gradient(GradientBuilder& b, const Node& node) {
  Graph& g = b.graph();
  const auto& a = node.as<HeadNormAttributes>();
  const ValueId dy = b.grad(node.outputs[0]), qkv = node.inputs[0], queries = node.inputs[1],
                keys = node.inputs[2];
  ValueId sums = no_value;
  if (node.inputs[3] != no_value) {
    sums = b.emit(Phase::input_grad, OpKind::head_sums, a, {qkv, dy, queries, keys}).outputs[0];
    if (!sums_leaves(a)) {
      sums =
          b.emit(Phase::input_grad, OpKind::all_reduce, CollectiveAttributes{a.group, true}, {sums})
              .outputs[0];
    }
  }
  const auto gradient_of = [&](ValueId weight) {
    return g.value(weight).role == Role::parameter ? g.gradient_of(weight) : no_value;
  };
  b.set_grad(qkv, b.emit(Phase::input_grad, OpKind::head_norm_grad, a,
                         {dy, qkv, queries, keys, node.outputs[1], sums, gradient_of(queries),
                          gradient_of(keys)})
                      .outputs[0]);
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).head_norm(l.queue, shape_of(l.node.as<HeadNormAttributes>(), l.input_value(0)),
                            l.output<T>(0), l.output<Acc<T>>(1), l.input<T>(0), l.input<T>(1),
                            l.input<T>(2), l.input<Acc<T>>(3));
  });
}

// inputs: dy, qkv, query weight, key weight, rstd, (sums of all ranks), (gradients of the weights)
// outputs: dqkv, (gradients of the weights, which constants do not have)
void infer_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[1]).shape);
  node.outputs[1] = node.inputs[6];
  node.outputs[2] = node.inputs[7];
  node.inputs[6] = node.inputs[7] = no_value;
}

// Copies of the heads of one leaf, for one block of rows: dx, dy, x and rstd.
struct LeafScratch {
  HeadNormShape leaf;
  std::int64_t activations = 0, norms = 0;  // bytes of each
  std::int64_t leaves;

  LeafScratch(const Graph& g, const Node& node)
      : leaf(shape_of(node.as<HeadNormAttributes>(), g.value(node.inputs[1]))),
        leaves(leaf.all_heads ? 1
                              : std::max<std::int64_t>(1, node.as<HeadNormAttributes>().leaves)) {
    leaf.rows = RowBlocks(g, leaf.rows).rows;
    if (leaves == 1) return;
    TRIREME_CHECK(leaf.groups % leaves == 0);
    leaf.groups /= leaves;
    activations = align_up(leaf.rows * leaf.qkv_cols() * size_of(g.compute()));
    norms = align_up(leaf.rows * leaf.norms() * size_of(g.accumulate()));
  }
  static std::int64_t align_up(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }
  std::int64_t bytes() const { return 3 * activations + norms; }
};

std::int64_t workspace_grad(const Target& target, const Graph& g, const Node& node) {
  const Value& qkv = g.value(node.inputs[1]);
  const HeadNormShape shape = shape_of(node.as<HeadNormAttributes>(), qkv);
  const std::int64_t rows = RowBlocks(g, qkv.shape[0]).rows, width = shape.query_weights();
  const std::int64_t own = target.device != DeviceKind::cpu
                               ? gpu::norm_grad_workspace(rows, width)
                               : size_of(g.accumulate()) * cpu::norm_grad_workspace(rows, width);
  return block_gradient_bytes(g, width) + block_gradient_bytes(g, shape.key_weights()) +
         LeafScratch(g, node).bytes() + own;
}

template <class A>
A* weight_gradient(const Launch& l, int output) {
  return l.node.outputs[output] == no_value ? nullptr : l.output<A>(output);
}

// Writes the weight gradients to dquery and dkey.
template <class T>
void launch_grad_rows(const Launch& l, const HeadNormShape& shape, std::int64_t first_row,
                      Acc<T>* dquery, Acc<T>* dkey, bool accumulate, void* workspace) {
  const std::int64_t at = first_row * shape.qkv_cols();
  const auto* const sums = l.input<Acc<T>>(5);
  kernels<T>(l).head_norm_grad(l.queue, shape,
                               {.dx = l.output<T>(0) + at,
                                .dquery_weight = dquery,
                                .dkey_weight = dkey,
                                .accumulate = accumulate,
                                .dy = l.input<T>(0) + at,
                                .x = l.input<T>(1) + at,
                                .rstd = l.input<Acc<T>>(4) + first_row * shape.norms(),
                                .query_weight = l.input<T>(2),
                                .key_weight = l.input<T>(3),
                                .sums = sums ? sums + 2 * first_row : nullptr,
                                .workspace = static_cast<Acc<T>*>(workspace)});
}

// Gradients of one block of rows, leaf by leaf: each adds to the weight gradients separately.
template <class T>
void launch_grad_leaves(const Launch& l, const LeafScratch& scratch, std::int64_t first_row,
                        const HeadNormGradOperands<T>& of_weights, bool overwrite,
                        std::byte* memory) {
  using A = Acc<T>;
  const HeadNormShape& leaf = scratch.leaf;
  T* const dx = reinterpret_cast<T*>(memory);
  T* const dy = reinterpret_cast<T*>(memory + scratch.activations);
  T* const x = reinterpret_cast<T*>(memory + 2 * scratch.activations);
  A* const rstd = reinterpret_cast<A*>(memory + 3 * scratch.activations);
  const std::int64_t columns = leaf.qkv_cols(), width = columns * scratch.leaves;
  const std::int64_t norms = leaf.norms(), all_norms = norms * scratch.leaves;
  for (std::int64_t i = 0; i < scratch.leaves; ++i) {
    const BlockCopy heads{.counts = {leaf.rows, 1, 1},
                          .dst_strides = {columns, 0, 0},
                          .src_strides = {width, 0, 0},
                          .src_first = first_row * width + i * columns,
                          .width = columns};
    kernels<T>(l).copy_blocks(l.queue, dy, l.input<T>(0), heads);
    kernels<T>(l).copy_blocks(l.queue, x, l.input<T>(1), heads);
    kernels<A>(l).copy_blocks(l.queue, rstd, l.input<A>(4),
                              {.counts = {leaf.rows, 1, 1},
                               .dst_strides = {norms, 0, 0},
                               .src_strides = {all_norms, 0, 0},
                               .src_first = first_row * all_norms + i * norms,
                               .width = norms});
    HeadNormGradOperands<T> operands = of_weights;
    operands.dx = dx;
    operands.dy = dy;
    operands.x = x;
    operands.rstd = rstd;
    kernels<T>(l).head_norm_grad(l.queue, leaf, operands);
    kernels<T>(l).copy_blocks(l.queue, l.output<T>(0), dx, heads.inverse());
    add_block(l, 1, of_weights.dquery_weight, overwrite && i == 0);
    add_block(l, 2, of_weights.dkey_weight, overwrite && i == 0);
  }
}

void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    HeadNormShape shape = shape_of(l.node.as<HeadNormAttributes>(), l.input_value(1));
    const RowBlocks blocks(l.graph, shape.rows);
    if (l.graph.exact_block() == 0 || l.node.outputs[1] == no_value) {
      return launch_grad_rows<T>(l, shape, 0, weight_gradient<A>(l, 1), weight_gradient<A>(l, 2),
                                 l.accumulate, l.workspace);
    }
    // By blocks: the weight gradients are placed before the kernel's own scratch.
    shape.rows = blocks.rows;
    const std::int64_t queries = block_gradient_bytes(l.graph, shape.query_weights());
    const std::int64_t both = queries + block_gradient_bytes(l.graph, shape.key_weights());
    auto* const scratch = static_cast<std::byte*>(l.workspace);
    A* const made[] = {reinterpret_cast<A*>(scratch), reinterpret_cast<A*>(scratch + queries)};
    const LeafScratch leaves(l.graph, l.node);
    for (std::int64_t b = 0; b < blocks.count; ++b) {
      if (leaves.leaves > 1) {
        const HeadNormGradOperands<T> of_weights{
            .dquery_weight = made[0],
            .dkey_weight = made[1],
            .accumulate = false,
            .query_weight = l.input<T>(2),
            .key_weight = l.input<T>(3),
            .workspace = reinterpret_cast<A*>(scratch + both + leaves.bytes())};
        launch_grad_leaves<T>(l, leaves, b * blocks.rows, of_weights, !l.accumulate && b == 0,
                              scratch + both);
        continue;
      }
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
const OpDefinition head_sums_op{
    .name = "head_sums", .infer = infer_sums, .workspace = workspace_sums, .launch = launch_sums};

ValueId head_norm(Graph& g, ValueId qkv, ValueId query_weight, ValueId key_weight,
                  const HeadNormAttributes& attributes) {
  ValueId sums = no_value;
  if (attributes.group.size > 1 || sums_leaves(attributes)) {
    sums = g.emit(OpKind::head_sums, attributes, {qkv, no_value, no_value, no_value}).outputs[0];
    if (!sums_leaves(attributes)) sums = all_reduce(g, sums, attributes.group, true);
  }
  return g.emit(OpKind::head_norm, attributes, {qkv, query_weight, key_weight, sums}).outputs[0];
}

}  // namespace trireme::ops
