// Attention over a sequence, its gradient, and attention with a KV cache.
#include "backend/cpu/workspace.h"
#include "backend/gpu_workspace.h"
#include "graph/ops/attention_shape.h"
#include "graph/ops/definitions.h"
#include "graph/ops/ops.h"
#include "graph/ops/sinks.h"
#include "graph/ops/support.h"

namespace trireme::ops {
namespace {

std::int64_t workspace(const Target& target, const Graph& g, const Node& node) {
  const AttentionShape shape = shape_of(node.as<AttentionAttributes>());
  return target.device == DeviceKind::cpu ? cpu::attention_workspace(target, g.compute(), shape)
                                          : gpu::attention_workspace(g.compute(), shape);
}

// inputs: qkv, first visible, sample ids, lengths, sinks; outputs: ctx, lse
void infer(Graph& g, Node& node) {
  const auto& a = node.as<AttentionAttributes>();
  const AttentionShape shape = shape_of(a);
  const Value& qkv = g.value(node.inputs[0]);
  require(qkv.shape[0] == a.batch * a.seq && qkv.shape[1] == shape.qkv_cols(), g, node,
          "qkv must be [batch * seq, groups * (queries per group + 2) * head_dim]");
  require_sinks(g, node);
  add_output(g, node, 0, g.compute(), {a.batch * a.seq, shape.ctx_cols()});
  add_output(g, node, 1, g.accumulate(), {a.batch, shape.heads(), a.seq});
}

double flops(const Graph&, const Node& node) {
  const auto& a = node.as<AttentionAttributes>();
  const double pairs = pairs_of(a);
  return 4.0 * a.batch * a.groups * a.queries_per_group * pairs * a.head_dim;
}

void gradient(GradientBuilder& b, const Node& node) {
  add_sink_gradient(b, node, b.grad(node.outputs[0]));
  b.add_grad(node.inputs[0],
             b.emit(Phase::input_grad, OpKind::attention_grad, node.attributes,
                    {b.grad(node.outputs[0]), node.inputs[0], node.outputs[0], node.outputs[1],
                     node.inputs[1], node.inputs[2], node.inputs[3]})
                 .outputs[0]);
}

void launch(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    const AttentionShape shape = shape_at_run(l, 1, 2, 3);
    kernels<T>(l).attention(l.queue, shape, l.output<T>(0), l.output<Acc<T>>(1), l.input<T>(0),
                            l.workspace);
    apply_sinks<T>(l, shape);
  });
}

// inputs: dctx, qkv, ctx, lse, first visible, sample ids, lengths; outputs: dqkv and, where fuse()
// adds it, the gradient of the bias that qkv contains
void infer_grad(Graph& g, Node& node) {
  add_output(g, node, 0, g.compute(), g.value(node.inputs[1]).shape);
}

double flops_grad(const Graph& g, const Node& node) {
  return 2.5 * flops(g, node);
}

std::int64_t workspace_grad(const Target& target, const Graph& g, const Node& node) {
  const std::int64_t bytes = workspace(target, g, node);
  if (node.outputs[1] == no_value) return bytes;
  return bytes + gpu::attention_bias_workspace(shape_of(node.as<AttentionAttributes>()));
}

void launch_grad(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).attention_grad(l.queue, shape_at_run(l, 4, 5, 6),
                                 {.dqkv = l.output<T>(0),
                                  .dctx = l.input<T>(0),
                                  .qkv = l.input<T>(1),
                                  .ctx = l.input<T>(2),
                                  .lse = l.input<Acc<T>>(3),
                                  .dbias = l.output<Acc<T>>(1),
                                  .accumulate = l.accumulate,
                                  .workspace = l.workspace});
  });
}

// inputs: qkv, key cache, value cache, lengths, sinks; outputs: ctx, with sinks lse
void infer_cached(Graph& g, Node& node) {
  const auto& a = node.as<AttentionAttributes>();
  require_sinks(g, node);
  add_output(g, node, 0, g.compute(), {a.batch * a.seq, shape_of(a).ctx_cols()});
  if (node.inputs[sinks_operand] != no_value)
    add_output(g, node, 1, g.accumulate(), {a.batch, a.heads(), a.seq});
}

CachedAttentionShape cached_shape_of(const Node& node) {
  const auto& a = node.as<AttentionAttributes>();
  return {a, a.capacity};
}

std::int64_t workspace_cached(const Target& target, const Graph&, const Node& node) {
  return target.device == DeviceKind::cpu ? 0
                                          : gpu::cached_attention_workspace(cached_shape_of(node));
}

void launch_cached(const Launch& l) {
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    kernels<T>(l).cached_attention(l.queue, cached_shape_of(l.node), l.output<T>(0),
                                   l.output<Acc<T>>(1), l.input<T>(0), l.input<T>(1), l.input<T>(2),
                                   l.input<std::int32_t>(3), static_cast<Acc<T>*>(l.workspace));
    apply_sinks<T>(l, shape_of(l.node.as<AttentionAttributes>()));
  });
}

}  // namespace

const OpDefinition attention_op{.name = "attention",
                                .infer = infer,
                                .gradient = gradient,
                                .flops = flops,
                                .workspace = workspace,
                                .launch = launch};
const OpDefinition attention_grad_op{.name = "attention_grad",
                                     .infer = infer_grad,
                                     .flops = flops_grad,
                                     .workspace = workspace_grad,
                                     .launch = launch_grad};
const OpDefinition cached_attention_op{.name = "cached_attention",
                                       .infer = infer_cached,
                                       .workspace = workspace_cached,
                                       .launch = launch_cached};

ValueId attention(Graph& g, ValueId qkv, ValueId first_visible, ValueId sample_ids,
                  const AttentionAttributes& attributes, ValueId lengths, ValueId sinks) {
  return g
      .emit(OpKind::attention, attributes,
            {qkv, first_visible, ids_if_dropping(attributes.dropout, sample_ids), lengths, sinks})
      .outputs[0];
}

ValueId cached_attention(Graph& g, ValueId qkv, ValueId key_cache, ValueId value_cache,
                         ValueId lengths, const AttentionAttributes& attributes, ValueId sinks) {
  return g.emit(OpKind::cached_attention, attributes, {qkv, key_cache, value_cache, lengths, sinks})
      .outputs[0];
}

}  // namespace trireme::ops
