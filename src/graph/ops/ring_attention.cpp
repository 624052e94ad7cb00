// Ring attention of context-parallel ranks (Liu et al. 2023), each with two chunks of
// every sequence: keys and values travel from rank to rank, and each rank's queries attend
// to one rank's keys after the other. In the backward pass the gradients of keys and
// values follow in full precision, and return with the last message. Messages overlap with
// computation.
#include <utility>

#include "backend/cpu/workspace.h"
#include "backend/gpu_workspace.h"
#include "base/line_parts.h"
#include "graph/ops/attention_shape.h"
#include "graph/ops/context_orders.h"
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/sinks.h"

namespace trireme::ops {
namespace {

GraphGroup group_of(const AttentionAttributes& a) {
  return {GroupKind::context, a.context_ranks};
}

std::int64_t local_rows(const AttentionAttributes& a) {
  return a.batch * 2 * a.cut.chunk;
}

std::int64_t key_columns(const AttentionAttributes& a) {
  return a.groups * 2 * a.head_dim;
}

std::int64_t key_elements(const AttentionAttributes& a) {
  return local_rows(a) * key_columns(a);
}

// Layout of the workspace.
struct Scratch : LineParts {
  std::int64_t keys[2], key_grads[4] = {}, kernel = 0;

  Scratch(const Graph& g, const AttentionAttributes& a, bool backward) {
    const std::int64_t of_keys = key_elements(a);
    for (std::int64_t& part : keys) part = add(of_keys * size_of(g.compute()));
    if (backward)
      for (std::int64_t& part : key_grads) part = add(of_keys * size_of(g.accumulate()));
    kernel = bytes;
  }
};

using Passing = std::unique_ptr<RankGroup::Passing>;

// The turns of one pass: in turn k a rank has keys and values of the rank k places before it.
class Ring {
 public:
  Ring(const Launch& l, const Scratch& scratch, int keys)
      : l_(l),
        a_(l.node.as<AttentionAttributes>()),
        group_(ops::group_of(l, group_of(a_))),
        own_(static_cast<std::byte*>(l.in[keys])),
        arrived_{at(scratch.keys[0]), at(scratch.keys[1])} {}

  std::byte* at(std::int64_t offset) const {
    return static_cast<std::byte*>(l_.workspace) + offset;
  }
  int turns() const { return group_.size(); }
  SequenceCut cut(int turn) const {
    const std::int64_t rank = (group_.rank() + turns() - turn) % turns(), chunk = a_.cut.chunk;
    return {chunk, {rank * chunk, (2 * turns() - 1 - rank) * chunk}};
  }
  const std::byte* keys(int turn) const { return turn == 0 ? own_ : arrived_[turn % 2]; }

  // Sends this turn's keys and values, and receives those of the next turn. Null in the last turn.
  Passing pass_keys(int turn) const {
    if (turn + 1 == turns()) return nullptr;
    return pass(keys(turn), arrived_[(turn + 1) % 2], l_.graph.compute());
  }
  Passing pass(const std::byte* src, std::byte* dst, DType dtype) const {
    const int size = group_.size(), rank = group_.rank();
    const std::int64_t count = key_elements(a_);
    return group_.start_send_receive(l_.queue, src, count, (rank + 1) % size, dst, count,
                                     (rank + size - 1) % size, dtype);
  }

 private:
  const Launch& l_;
  const AttentionAttributes& a_;
  RankGroup& group_;
  std::byte* own_;
  std::byte* arrived_[2];
};

// inputs: qkv, keys and values of this rank, first visible, sample ids, sinks; outputs: ctx, lse
void infer(Graph& g, Node& node) {
  const auto& a = node.as<AttentionAttributes>();
  const Value& qkv = g.value(node.inputs[0]);
  require(a.causal && a.seq == 2 * a.context_ranks * a.cut.chunk, g, node,
          "sequences must divide into twice as many chunks as there are ranks");
  require(qkv.shape[0] == local_rows(a) && qkv.shape[1] == shape_of(a).qkv_cols(), g, node,
          "qkv must be [own rows, groups * (queries per group + 2) * head_dim]");
  require_sinks(g, node);
  add_output(g, node, 0, g.compute(), {local_rows(a), shape_of(a).ctx_cols()});
  add_output(g, node, 1, g.accumulate(), {a.batch * 2 * shape_of(a).heads(), a.cut.chunk});
}

// The same as with gathered keys, since the (query, key) pairs are the same.
double products(const AttentionAttributes& a) {
  return 2.0 * static_cast<double>(a.batch * a.groups * a.queries_per_group * a.head_dim) *
         pairs_of(a) / a.context_ranks;
}

double flops(const Graph&, const Node& node) {
  return 2 * products(node.as<AttentionAttributes>());
}
double flops_grad(const Graph&, const Node& node) {
  return 7 * products(node.as<AttentionAttributes>());
}

// On the CPU, accumulators over the turns.
std::int64_t workspace(const Target& target, const Graph& g, const Node& node) {
  const auto& a = node.as<AttentionAttributes>();
  const AttentionShape shape = shape_of(a);
  return Scratch(g, a, false).bytes +
         (target.device == DeviceKind::cpu
              ? local_rows(a) * shape.ctx_cols() * size_of(g.accumulate())
              : gpu::ring_attention_workspace(g.compute(), shape));
}

void launch(const Launch& l) {
  const auto& a = l.node.as<AttentionAttributes>();
  const Scratch scratch(l.graph, a, false);
  const Ring ring(l, scratch, 1);
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    for (int turn = 0; turn < ring.turns(); ++turn) {
      const Passing next_keys = ring.pass_keys(turn);
      kernels<T>(l).ring_attention(l.queue, shape_at_run(l, 2, 3, -1), ring.cut(turn), turn == 0,
                                   turn + 1 == ring.turns() ? l.output<T>(0) : nullptr,
                                   reinterpret_cast<A*>(ring.at(scratch.kernel)), l.output<A>(1),
                                   l.input<T>(0), reinterpret_cast<const T*>(ring.keys(turn)));
      if (next_keys) next_keys->wait();
    }
    apply_sinks<T>(l, shape_of(a));
  });
}

// Extracts a rank's keys and values from qkv.
ReorderAttributes keys_of(const AttentionAttributes& a) {
  return ends_of_groups(local_rows(a), a.groups, (a.queries_per_group + 2) * a.head_dim,
                        2 * a.head_dim);
}

void gradient(GradientBuilder& b, const Node& node) {
  const auto a = node.as<AttentionAttributes>();
  const ValueId qkv = node.inputs[0], first_visible = node.inputs[2], ids = node.inputs[3];
  const ValueId ctx = node.outputs[0], lse = node.outputs[1], dctx = b.grad(ctx);
  add_sink_gradient(b, node, dctx);
  const ValueId delta =
      b.emit(Phase::input_grad, OpKind::attention_delta, a, {ctx, dctx}).outputs[0];
  const ValueId keys = b.emit(Phase::input_grad, OpKind::reorder, keys_of(a), {qkv}).outputs[0];
  b.add_grad(qkv, b.emit(Phase::input_grad, OpKind::ring_attention_grad, a,
                         {qkv, keys, dctx, lse, delta, first_visible, ids})
                      .outputs[0]);
}

// inputs: qkv, keys and values, dctx, lse, delta, first visible, sample ids; output: dqkv
void infer_grad(Graph& g, Node& node) {
  const auto& a = node.as<AttentionAttributes>();
  add_output(g, node, 0, g.compute(), {local_rows(a), shape_of(a).qkv_cols()});
}

std::int64_t workspace_grad(const Target& target, const Graph& g, const Node& node) {
  const auto& a = node.as<AttentionAttributes>();
  return Scratch(g, a, true).bytes +
         (target.device == DeviceKind::cpu
              ? cpu::context_attention_workspace(target, g.compute(), shape_of(a))
              : gpu::ring_attention_grad_workspace(g.compute(), shape_of(a)));
}

// The gradient sums of turn 0 stay on this rank, and are combined with those of all other ranks at
// the end. Sums of later turns are added to those of earlier ranks for the same keys, which arrive
// while they are computed, and are sent on during the next turn.
void launch_grad(const Launch& l) {
  const auto& a = l.node.as<AttentionAttributes>();
  const Scratch scratch(l.graph, a, true);
  const Ring ring(l, scratch, 1);
  const DType accumulate = l.graph.accumulate();
  const std::int64_t bytes = key_elements(a) * size_of(accumulate);
  std::byte* const own = ring.at(scratch.key_grads[0]);
  std::byte *made = ring.at(scratch.key_grads[1]), *sent = ring.at(scratch.key_grads[2]);
  std::byte* arrives = ring.at(scratch.key_grads[3]);
  Passing grads;
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    const auto sums = [](std::byte* at) { return reinterpret_cast<A*>(at); };
    const AttentionShape shape = shape_at_run(l, 5, 6, -1);
    for (int turn = 0; turn < ring.turns(); ++turn) {
      const Passing next_keys = ring.pass_keys(turn);
      const bool last = turn + 1 == ring.turns();
      std::byte* const to = turn == 0 ? own : made;
      l.queue.fill(to, 0, bytes);
      kernels<T>(l).ring_attention_grad(l.queue, shape, ring.cut(turn), turn == 0,
                                        last ? l.output<T>(0) : nullptr, sums(to), l.input<T>(0),
                                        reinterpret_cast<const T*>(ring.keys(turn)), l.input<T>(2),
                                        l.input<A>(3), l.input<A>(4), ring.at(scratch.kernel));
      if (turn > 1) {
        grads->wait();
        kernels<A>(l).add(l.queue, sums(made), sums(made), sums(arrives), local_rows(a),
                          key_columns(a), {});
      }
      if (turn > 0) {
        grads = ring.pass(made, arrives, accumulate);
        std::swap(made, sent);
      }
      if (next_keys) next_keys->wait();
    }
    grads->wait();
    kernels<T>(l).ring_key_grads(l.queue, shape, l.output<T>(0), sums(own), sums(arrives));
  });
}

}  // namespace

const OpDefinition ring_attention_op{.name = "ring_attention",
                                     .infer = infer,
                                     .gradient = gradient,
                                     .flops = flops,
                                     .workspace = workspace,
                                     .launch = launch};
const OpDefinition ring_attention_grad_op{.name = "ring_attention_grad",
                                          .infer = infer_grad,
                                          .flops = flops_grad,
                                          .workspace = workspace_grad,
                                          .launch = launch_grad};

ValueId ring_attention(Graph& g, ValueId qkv, ValueId first_visible, ValueId sample_ids,
                       const AttentionAttributes& a, ValueId sinks) {
  const ValueId keys = reorder(g, qkv, keys_of(a));
  return g
      .emit(OpKind::ring_attention, a,
            {qkv, keys, first_visible, ids_if_dropping(a.dropout, sample_ids), sinks})
      .outputs[0];
}

}  // namespace trireme::ops
