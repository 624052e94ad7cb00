// Assembles queries, keys and values of latent attention in the layout of attention.
#include "base/line_parts.h"
#include "graph/ops/definitions.h"
#include "graph/ops/leaf_linear.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// The columns of each head of each row: a row begins every `row` elements, and in it, from `first`
// on, a head every `head` elements.
struct HeadColumns {
  std::int64_t row = 0, head = 0, first = 0;
};
BlockCopy copy_of(std::int64_t rows, std::int64_t heads, const HeadColumns& dst,
                  const HeadColumns& src, std::int64_t width) {
  BlockCopy copy;
  copy.counts[0] = rows;
  copy.counts[1] = heads;
  copy.dst_strides[0] = dst.row;
  copy.dst_strides[1] = dst.head;
  copy.dst_first = dst.first;
  copy.src_strides[0] = src.row;
  copy.src_strides[1] = src.head;
  copy.src_first = src.first;
  copy.width = width;
  return copy;
}

// Sources of the parts of a head: queries, keys and values of qkv.
struct Copies {
  BlockCopy query, plain_key, value, rope_key;

  Copies(const LatentAttributes& a, std::int64_t rows) {
    const std::int64_t d = a.head_dim, up = a.plain_dim() + a.value_dim;
    const auto in_qkv = [&](std::int64_t first) {
      return HeadColumns{a.heads * 3 * d, 3 * d, first};
    };
    const auto in_kv = [&](std::int64_t first) { return HeadColumns{a.heads * up, up, first}; };
    query = copy_of(rows, a.heads, in_qkv(0), {a.heads * d, d, 0}, d);
    plain_key = copy_of(rows, a.heads, in_qkv(d + a.rope_dim), in_kv(0), a.plain_dim());
    value = copy_of(rows, a.heads, in_qkv(2 * d), in_kv(a.plain_dim()), a.value_dim);
    rope_key = copy_of(rows, a.heads, in_qkv(d), {a.rope_dim, 0, 0}, a.rope_dim);
  }
};

// inputs: q, kv, key_rope; output: qkv
void infer(Graph& g, Node& node) {
  const auto& a = node.as<LatentAttributes>();
  const Shape q = g.value(node.inputs[0]).shape;
  require(q.rank() == 2 && q[1] == a.heads * a.head_dim, g, node,
          "queries must be [rows, heads * head_dim]");
  require(g.value(node.inputs[1]).shape == Shape({q[0], a.heads * (a.plain_dim() + a.value_dim)}) &&
              g.value(node.inputs[2]).shape == Shape({q[0], a.rope_dim}),
          g, node, "keys and values must have the widths of their heads");
  require(a.plain_dim() > 0 && a.rope_dim > 0 && a.value_dim <= a.head_dim, g, node,
          "a head needs both parts of a key, and a value that is not wider");
  add_output(g, node, 0, g.compute(), {q[0], a.heads * 3 * a.head_dim});
}

void gradient(GradientBuilder& b, const Node& node) {
  const Node& grad = b.emit(Phase::input_grad, OpKind::latent_heads_grad,
                            node.as<LatentAttributes>(), {b.grad(node.outputs[0])});
  const std::array made = grad.outputs;
  for (int i = 0; i < 3; ++i) b.add_grad(node.inputs[i], made[i]);
}

void launch(const Launch& l) {
  const auto& a = l.node.as<LatentAttributes>();
  const Copies copies(a, l.output_value(0).shape[0]);
  if (a.value_dim < a.head_dim) l.queue.fill(l.out[0], 0, l.output_value(0).bytes());
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const auto copy = [&](int from, const BlockCopy& part) {
      kernels<T>(l).copy_blocks(l.queue, l.output<T>(0), l.input<T>(from), part);
    };
    copy(0, copies.query);
    copy(1, copies.plain_key);
    copy(1, copies.value);
    copy(2, copies.rope_key);
  });
}

// inputs: dqkv; outputs: dq, dkv, dkey_rope, which is summed over all heads
void infer_grad(Graph& g, Node& node) {
  const auto& a = node.as<LatentAttributes>();
  const std::int64_t rows = g.value(node.inputs[0]).shape[0];
  add_output(g, node, 0, g.compute(), {rows, a.heads * a.head_dim});
  add_output(g, node, 1, g.compute(), {rows, a.heads * (a.plain_dim() + a.value_dim)});
  add_output(g, node, 2, g.compute(), {rows, a.rope_dim});
}

BlockCopy sum_over_heads(const BlockCopy& to_heads) {
  BlockCopy sum = to_heads.inverse();
  for (auto* counted : {sum.counts, sum.dst_strides, sum.src_strides})
    std::swap(counted[1], counted[2]);
  return sum;
}

// Layout of the scratch for sums over leaves: the part of each head, the same in the type of sums,
// and the sums.
struct KeyScratch {
  std::int64_t wide = 0, sums = 0, bytes = 0;

  KeyScratch(const Graph& g, const Node& node) {
    const auto& a = node.as<LatentAttributes>();
    if (a.leaves.count == 0) return;
    const std::int64_t rows = g.value(node.inputs[0]).shape[0], all = rows * a.heads * a.rope_dim;
    LineParts parts;
    parts.add(all * size_of(g.compute()));
    wide = parts.add(all * size_of(g.accumulate()));
    sums =
        parts.add(LeafTree::buffers(a.leaves.count) * rows * a.rope_dim * size_of(g.accumulate()));
    bytes = parts.bytes;
  }
};

std::int64_t workspace_grad(const Target&, const Graph& g, const Node& node) {
  return KeyScratch(g, node).bytes;
}

// The gradient of the shared part of keys, which does not depend on where the heads are.
template <class T>
void sum_leaves(const Launch& l, const BlockCopy& to_heads) {
  using A = Acc<T>;
  const auto& a = l.node.as<LatentAttributes>();
  const KeyScratch scratch(l.graph, l.node);
  auto* const memory = static_cast<std::byte*>(l.workspace);
  auto* const apart = reinterpret_cast<T*>(memory);
  auto* const wide = reinterpret_cast<A*>(memory + scratch.wide);
  const std::int64_t rows = l.output_value(0).shape[0], width = a.heads * a.rope_dim;
  const std::int64_t count = rows * a.rope_dim, heads = a.heads / a.leaves.count;
  BlockCopy parts = to_heads.inverse();
  parts.dst_strides[0] = width;
  parts.dst_strides[1] = a.rope_dim;
  kernels<T>(l).copy_blocks(l.queue, apart, l.input<T>(0), parts);
  kernels<T>(l).scale_matrix(l.queue, wide, apart, 1, rows, width, false);
  LeafTree tree(l, l.graph.accumulate(), count, memory + scratch.sums);
  for (std::int64_t leaf = 0; leaf < a.leaves.count; ++leaf) {
    const HeadColumns of_leaf{width, a.rope_dim, leaf * heads * a.rope_dim};
    kernels<A>(l).sum_blocks(
        l.queue, static_cast<A*>(tree.next()), wide,
        sum_over_heads(copy_of(rows, heads, of_leaf, {a.rope_dim, 0, 0}, a.rope_dim)));
    tree.take();
  }
  auto* const sums = reinterpret_cast<A*>(memory + scratch.sums);
  if (a.leaves.group.size > 1)
    group_of(l, a.leaves.group).sum_in_tree(l.queue, sums, count, l.graph.accumulate());
  kernels<T>(l).store_sums(l.queue, l.output<T>(2), sums, nullptr, rows, a.rope_dim);
}

void launch_grad(const Launch& l) {
  const auto& a = l.node.as<LatentAttributes>();
  const Copies copies(a, l.output_value(0).shape[0]);
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const auto copy = [&](int to, const BlockCopy& part) {
      kernels<T>(l).copy_blocks(l.queue, l.output<T>(to), l.input<T>(0), part.inverse());
    };
    copy(0, copies.query);
    copy(1, copies.plain_key);
    copy(1, copies.value);
    if (a.leaves.count > 0) return sum_leaves<T>(l, copies.rope_key);
    kernels<T>(l).sum_blocks(l.queue, l.output<T>(2), l.input<T>(0),
                             sum_over_heads(copies.rope_key));
  });
}

}  // namespace

const OpDefinition latent_heads_op{
    .name = "latent_heads", .infer = infer, .gradient = gradient, .launch = launch};
const OpDefinition latent_heads_grad_op{.name = "latent_heads_grad",
                                        .infer = infer_grad,
                                        .workspace = workspace_grad,
                                        .launch = launch_grad};

ValueId latent_heads(Graph& g, ValueId q, ValueId kv, ValueId key_rope,
                     const LatentAttributes& attributes) {
  return g.emit(OpKind::latent_heads, attributes, {q, kv, key_rope}).outputs[0];
}

ValueId narrow_heads(Graph& g, ValueId context, const LatentAttributes& a) {
  if (a.value_dim == a.head_dim) return context;
  const std::int64_t rows = g.value(context).shape[0];
  ReorderAttributes order{rows, a.heads * a.value_dim, 1, {}};
  order.copies[0] = copy_of(rows, a.heads, {a.heads * a.value_dim, a.value_dim, 0},
                            {a.heads * a.head_dim, a.head_dim, 0}, a.value_dim);
  return reorder(g, context, order);
}

}  // namespace trireme::ops
