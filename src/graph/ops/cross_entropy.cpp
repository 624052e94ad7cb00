// Softmax cross-entropy in steps, with communication between vocabulary-parallel ranks:
// statistics of the local logits, their merge over ranks, the loss of each token, and the
// gradient in place.
#include <algorithm>

#include "graph/ops/definitions.h"
#include "graph/ops/leaf_linear.h"
#include "graph/ops/ops.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

// inputs: logits, targets; outputs: largest, sum, target's logit
void infer_stats(Graph& g, Node& node) {
  const Value& logits = g.value(node.inputs[0]);
  require(logits.shape.back() >= node.as<LossAttributes>().vocab, g, node,
          "fewer logits than the vocabulary");
  const std::int64_t rows = logits.shape[0], leaves = node.as<LossAttributes>().leaves;
  require(g.value(node.inputs[1]).shape.count() == rows, g, node, "one target per row is needed");
  require(leaves == 0 || logits.shape[1] % leaves == 0, g, node, "leaves must divide the logits");
  const Shape shape = leaves > 0 ? Shape{leaves, rows} : Shape{rows};
  for (int i = 0; i < 3; ++i) add_output(g, node, i, g.accumulate(), shape);
}

void launch_stats(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    const Value& logits = l.input_value(0);
    const auto& a = l.node.as<LossAttributes>();
    const std::int64_t rows = logits.shape[0], leaves = std::max<std::int64_t>(1, a.leaves);
    const std::int64_t columns = logits.shape[1] / leaves;
    for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
      const std::int64_t first = leaf * columns, at = leaf * rows;
      const std::int64_t words =
          leaves == 1 ? a.vocab : std::clamp<std::int64_t>(a.vocab - first, 0, columns);
      kernels<T>(l).softmax_stats(l.queue, l.output<A>(0) + at, l.output<A>(1) + at,
                                  l.output<A>(2) + at, l.input<T>(0) + first,
                                  l.input<std::int32_t>(1), rows, words, logits.shape[1],
                                  a.first_id + first);
    }
  });
}

// inputs: largest, sum, target's logit of the local logits, or of each leaf; outputs: the same over
// all ranks' logits
void infer_merge(Graph& g, Node& node) {
  for (int i = 0; i < 3; ++i)
    add_output(g, node, i, g.accumulate(), {g.value(node.inputs[i]).shape.back()});
}

// Sums and target logits are reduced in one message.
std::int64_t workspace_merge(const Target&, const Graph& g, const Node& node) {
  const std::int64_t leaves = node.as<SoftmaxMergeAttributes>().leaves;
  const std::int64_t both = 2 * g.value(node.inputs[0]).shape.back() * size_of(g.accumulate());
  return leaves > 0 ? LeafTree::buffers(leaves) * both : both;
}

template <class A>
void merge_leaves(const Launch& l, std::int64_t leaves) {
  const GraphGroup& ranks = l.node.as<SoftmaxMergeAttributes>().group;
  RankGroup* const group = ranks.size > 1 ? &group_of(l, ranks) : nullptr;
  const DType dtype = l.graph.accumulate();
  const std::int64_t rows = l.output_value(0).shape.count(), bytes = rows * size_of(dtype);
  const A* const local = l.input<A>(0);
  A* const largest = l.output<A>(0);
  l.device.state_kernels().reduce_parts(l.queue, dtype, true, largest, local, local, rows,
                                        static_cast<int>(leaves), 0, rows);
  if (group) group->maximum(l.queue, largest, rows, dtype);
  LeafTree tree(l, dtype, 2 * rows, static_cast<A*>(l.workspace));
  for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
    const std::int64_t at = leaf * rows;
    kernels<A>(l).softmax_rescale(l.queue, static_cast<A*>(tree.next()), l.input<A>(1) + at,
                                  l.input<A>(2) + at, local + at, largest, rows);
    tree.take();
  }
  A* const sums = static_cast<A*>(l.workspace);
  if (group) group->sum_in_tree(l.queue, sums, 2 * rows, dtype);
  l.queue.copy(l.output<A>(1), sums, bytes);
  l.queue.copy(l.output<A>(2), sums + rows, bytes);
}

void launch_merge(const Launch& l) {
  const auto& attributes = l.node.as<SoftmaxMergeAttributes>();
  if (attributes.leaves > 0) {
    return with_accumulation_type(l.graph.accumulate(),
                                  [&]<class A>(A) { merge_leaves<A>(l, attributes.leaves); });
  }
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    RankGroup& group = group_of(l, attributes.group);
    const DType dtype = l.graph.accumulate();
    const std::int64_t rows = l.output_value(0).shape.count();
    const A* local = l.input<A>(0);
    A* largest = l.output<A>(0);
    l.queue.copy(largest, local, rows * size_of(dtype));
    group.maximum(l.queue, largest, rows, dtype);
    A* sums = static_cast<A*>(l.workspace);
    kernels<T>(l).softmax_rescale(l.queue, sums, l.input<A>(1), l.input<A>(2), local, largest,
                                  rows);
    group.sum(l.queue, sums, 2 * rows, dtype);
    l.queue.copy(l.output<A>(1), sums, rows * size_of(dtype));
    l.queue.copy(l.output<A>(2), sums + rows, rows * size_of(dtype));
  });
}

// inputs: largest, sum, target's logit, logits, targets, loss weights; outputs: loss, lse
void infer_loss(Graph& g, Node& node) {
  const Shape rows = g.value(node.inputs[0]).shape;
  add_output(g, node, 0, g.accumulate(), rows);
  add_output(g, node, 1, g.accumulate(), rows);
}

void launch_loss(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    kernels<T>(l).token_loss(l.queue, l.output<A>(0), l.output<A>(1), l.input<A>(0), l.input<A>(1),
                             l.input<A>(2), l.output_value(0).shape.count());
  });
}

void gradient_loss(GradientBuilder& b, const Node& node) {
  b.add_grad(node.inputs[3],
             b.emit(Phase::input_grad, OpKind::cross_entropy_grad, node.attributes,
                    {node.inputs[3], node.outputs[1], node.inputs[4], node.inputs[5]})
                 .outputs[0]);
}

// inputs: logits, lse, targets, loss weights; the output overwrites the logits
void infer_grad(Graph& g, Node& node) {
  node.outputs[0] = g.new_view(node.inputs[0], g.value(node.inputs[0]).shape, 0);
}

void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Value& logits = l.input_value(0);
    const auto& a = l.node.as<LossAttributes>();
    kernels<T>(l).cross_entropy_grad(l.queue, l.output<T>(0), l.input<Acc<T>>(1),
                                     l.input<std::int32_t>(2), l.input<float>(3), l.step,
                                     logits.shape[0], a.vocab, logits.shape[1], a.first_id);
  });
}

// inputs: logits, targets, loss weights; outputs: loss, gradient in place of the logits
void launch_classifier(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const Value& logits = l.input_value(0);
    const auto& a = l.node.as<LossAttributes>();
    kernels<T>(l).classifier(l.queue, l.output<T>(1), l.output<Acc<T>>(0), l.input<std::int32_t>(1),
                             l.input<float>(2), l.step, logits.shape[0], a.vocab, logits.shape[1],
                             a.first_id);
  });
}

}  // namespace

const OpDefinition softmax_stats_op{
    .name = "softmax_stats", .infer = infer_stats, .launch = launch_stats};
const OpDefinition softmax_merge_op{.name = "softmax_merge",
                                    .infer = infer_merge,
                                    .workspace = workspace_merge,
                                    .launch = launch_merge};
const OpDefinition token_loss_op{
    .name = "token_loss", .infer = infer_loss, .gradient = gradient_loss, .launch = launch_loss};
const OpDefinition cross_entropy_grad_op{
    .name = "cross_entropy_grad", .infer = infer_grad, .launch = launch_grad};
// Created only by fuse().
const OpDefinition classifier_op{.name = "classifier", .launch = launch_classifier};

ValueId cross_entropy(Graph& g, ValueId logits, ValueId targets, ValueId loss_weights,
                      std::int64_t vocab, std::int64_t first_id, GraphGroup group,
                      std::int64_t leaves) {
  const LossAttributes attributes{vocab, first_id, leaves};
  Node stats = g.emit(OpKind::softmax_stats, attributes, {logits, targets});
  if (group.size > 1 || leaves > 0) {
    stats = g.emit(OpKind::softmax_merge, SoftmaxMergeAttributes{group, leaves},
                   {stats.outputs[0], stats.outputs[1], stats.outputs[2]});
  }
  return g
      .emit(OpKind::token_loss, attributes,
            {stats.outputs[0], stats.outputs[1], stats.outputs[2], logits, targets, loss_weights})
      .outputs[0];
}

}  // namespace trireme::ops
