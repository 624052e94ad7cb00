// Attention of context-parallel ranks, each of which has two chunks of every sequence.
//
// All-gather: each rank gathers all keys and values and attends with its own queries. The backward
// pass also gathers queries and their gradients, so that a rank computes the complete gradient of
// its keys: nothing is summed over ranks, and the bits do not depend on their number. (Llama 3,
// section 3.3.2, gathers keys and values and sums their gradients over the ranks.) All-to-all
// (Jacobs et al. 2023, "DeepSpeed Ulysses"): ranks exchange positions for heads; each gets full
// sequences for its share of the heads.
#include "backend/cpu/workspace.h"
#include "graph/ops/attention_shape.h"
#include "graph/ops/context_orders.h"
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/sinks.h"

namespace trireme::ops {
namespace {

ContextShape context_of(const AttentionAttributes& a) {
  return {a.context_ranks, a.batch, a.seq / (2 * a.context_ranks)};
}

CollectiveAttributes group_of(const AttentionAttributes& a) {
  return {{GroupKind::context, a.context_ranks}, false};
}

// inputs: qkv, keys and values of all ranks, first visible, sample ids, sinks; outputs: ctx, lse
void infer(Graph& g, Node& node) {
  const auto& a = node.as<AttentionAttributes>();
  const AttentionShape shape = shape_of(a);
  const ContextShape context = context_of(a);
  const Value& qkv = g.value(node.inputs[0]);
  require(a.causal && a.seq == context.seq() && a.cut.chunk == context.chunk, g, node,
          "sequences must divide into twice as many chunks as there are ranks");
  require(qkv.shape[0] == context.local_rows() && qkv.shape[1] == shape.qkv_cols(), g, node,
          "qkv must be [own rows, groups * (queries per group + 2) * head_dim]");
  require_sinks(g, node);
  add_output(g, node, 0, g.compute(), {context.local_rows(), shape.ctx_cols()});
  add_output(g, node, 1, g.accumulate(), {a.batch * 2 * shape.heads(), context.chunk});
}

// On average a rank's queries attend to half of all keys, for any number of ranks; with a window, a
// rank with the first chunk of a sequence attends to slightly fewer.
double products(const AttentionAttributes& a) {
  return 2.0 * static_cast<double>(a.batch * a.groups * a.queries_per_group * a.head_dim) *
         pairs_of(a) / a.context_ranks;
}

double flops(const Graph&, const Node& node) {
  return 2 * products(node.as<AttentionAttributes>());
}

ValueId emit_grad(GradientBuilder& b, OpKind op, const Attributes& attributes, ValueId x) {
  return b.emit(Phase::input_grad, op, attributes, {x}).outputs[0];
}

void gradient(GradientBuilder& b, const Node& node) {
  const auto a = node.as<AttentionAttributes>();
  const ContextShape context = context_of(a);
  const ValueId qkv = node.inputs[0], first_visible = node.inputs[2], ids = node.inputs[3];
  const ValueId ctx = node.outputs[0], lse = node.outputs[1], dctx = b.grad(ctx);
  add_sink_gradient(b, node, dctx);
  const auto whole = [&](ValueId x) {
    const std::int64_t columns = b.graph().value(x).shape[1];
    return emit_grad(b, OpKind::reorder, whole_sequences(context, columns),
                     emit_grad(b, OpKind::all_gather, group_of(a), x));
  };
  const auto whole_stats = [&](ValueId x) {
    return emit_grad(b, OpKind::reorder, whole_statistics(context, a.groups, a.queries_per_group),
                     emit_grad(b, OpKind::all_gather, group_of(a), x));
  };
  const ValueId delta =
      b.emit(Phase::input_grad, OpKind::attention_delta, a, {ctx, dctx}).outputs[0];
  const ValueId all_lse = whole_stats(lse), all_delta = whole_stats(delta);
  const ValueId all_qkv = whole(qkv), all_dctx = whole(dctx);
  b.add_grad(qkv, b.emit(Phase::input_grad, OpKind::context_attention_grad, a,
                         {all_qkv, all_dctx, all_lse, all_delta, first_visible, ids})
                      .outputs[0]);
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const AttentionShape shape = shape_at_run(l, 2, 3, -1);
    kernels<T>(l).context_attention(l.queue, shape, l.output<T>(0), l.output<Acc<T>>(1),
                                    l.input<T>(0), l.input<T>(1));
    apply_sinks<T>(l, shape);
  });
}

// inputs: ctx, dctx; output: delta, like lse
void infer_delta(Graph& g, Node& node) {
  const auto& a = node.as<AttentionAttributes>();
  add_output(g, node, 0, g.accumulate(),
             {a.batch * 2 * a.groups * a.queries_per_group, a.cut.chunk});
}

void launch_delta(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).attention_delta(l.queue, shape_of(l.node.as<AttentionAttributes>()),
                                  l.output<Acc<T>>(0), l.input<T>(0), l.input<T>(1));
  });
}

// inputs: qkv, dctx, lse and delta of all ranks, first visible, sample ids; output: dqkv
void infer_grad(Graph& g, Node& node) {
  const auto& a = node.as<AttentionAttributes>();
  add_output(g, node, 0, g.compute(), {context_of(a).local_rows(), shape_of(a).qkv_cols()});
}

double flops_grad(const Graph&, const Node& node) {
  return 7 * products(node.as<AttentionAttributes>());
}

std::int64_t workspace_grad(const Target& target, const Graph& g, const Node& node) {
  if (target.device != DeviceKind::cpu) return 0;
  return cpu::context_attention_workspace(target, g.compute(),
                                          shape_of(node.as<AttentionAttributes>()));
}

void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    kernels<T>(l).context_attention_grad(l.queue, shape_at_run(l, 4, 5, -1), l.output<T>(0),
                                         l.input<T>(0), l.input<T>(1), l.input<A>(2), l.input<A>(3),
                                         l.workspace);
  });
}

}  // namespace

const OpDefinition context_attention_op{.name = "context_attention",
                                        .infer = infer,
                                        .gradient = gradient,
                                        .flops = flops,
                                        .launch = launch};
const OpDefinition context_attention_grad_op{.name = "context_attention_grad",
                                             .infer = infer_grad,
                                             .flops = flops_grad,
                                             .workspace = workspace_grad,
                                             .launch = launch_grad};
const OpDefinition attention_delta_op{
    .name = "attention_delta", .infer = infer_delta, .launch = launch_delta};

ValueId all_gather_attention(Graph& g, ValueId qkv, ValueId first_visible, ValueId sample_ids,
                             const AttentionAttributes& a, ValueId sinks) {
  const ContextShape context = context_of(a);
  const std::int64_t kept = 2 * a.head_dim, whole = (a.queries_per_group + 2) * a.head_dim;
  const ValueId own = reorder(g, qkv, ends_of_groups(context.local_rows(), a.groups, whole, kept));
  const ValueId all = all_gather(g, own, group_of(a).group);
  const ValueId kv = reorder(g, all, whole_sequences(context, a.groups * kept));
  return g
      .emit(OpKind::context_attention, a,
            {qkv, kv, first_visible, ids_if_dropping(a.dropout, sample_ids), sinks})
      .outputs[0];
}

ValueId ulysses_attention(Graph& g, ValueId qkv, ValueId first_visible, ValueId sample_ids,
                          const AttentionAttributes& a, int rank, ValueId sinks) {
  const ContextShape context = context_of(a);
  const GraphGroup group = group_of(a).group;
  const std::int64_t rows = context.local_rows();
  AttentionAttributes part = a;
  TRIREME_CHECK(a.groups % a.context_ranks == 0);
  part.groups = a.groups / a.context_ranks;
  part.first_head += rank * part.groups * part.queries_per_group;
  part.cut = {};
  part.context_ranks = 1;
  const AttentionShape shape = shape_of(part);
  const auto exchange = [&](ValueId x) { return all_to_all(g, x, group); };
  const ValueId heads =
      reorder(g, exchange(reorder(g, qkv, columns_apart(rows, group.size, shape.qkv_cols()))),
              whole_sequences(context, shape.qkv_cols()));
  const std::int64_t own = part.groups * part.queries_per_group;
  if (sinks != no_value) sinks = g.new_view(sinks, {own}, rank * own * size_of(g.compute()));
  const ValueId ctx = attention(g, heads, first_visible, sample_ids, part, no_value, sinks);
  return reorder(g, exchange(reorder(g, ctx, parts_of_sequences(context, shape.ctx_cols()))),
                 columns_together(rows, group.size, shape.ctx_cols()));
}

}  // namespace trireme::ops
