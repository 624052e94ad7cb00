// Gradient of attention sinks: the sum of the terms of all rows.
#include "graph/ops/sinks.h"

#include "backend/cpu/kernels.h"
#include "backend/gpu_workspace.h"
#include "graph/ops/attention_shape.h"
#include "graph/ops/definitions.h"

namespace trireme::ops {
namespace {

// inputs: ctx, lse, dctx, sinks; output: the gradient of the parameter that the sinks are, or are a
// part of
void infer(Graph& g, Node& node) {
  node.outputs[0] = g.gradient_of(node.inputs[3]);
}

// Layout of the workspace: the sum of one block, what the rows say, and the scratch of their sum.
struct Scratch {
  std::int64_t heads, block_rows, terms, rest;

  Scratch(const Graph& g, const Node& node) {
    const std::int64_t rows = g.value(node.inputs[0]).shape[0];
    heads = g.value(node.inputs[3]).shape.count();
    block_rows = RowBlocks(g, rows).rows;
    terms = block_gradient_bytes(g, heads);
    rest = terms + (rows * heads * size_of(g.accumulate()) + 63) / 64 * 64;
  }
};

std::int64_t workspace(const Target& target, const Graph& g, const Node& node) {
  const Scratch scratch(g, node);
  return scratch.rest + (target.device != DeviceKind::cpu
                             ? gpu::bias_grad_workspace(scratch.block_rows, scratch.heads)
                             : size_of(g.accumulate()) *
                                   cpu::bias_grad_workspace(scratch.block_rows, scratch.heads));
}

void launch(const Launch& l) {
  const Scratch scratch(l.graph, l.node);
  const Value& sinks = l.input_value(3);
  const std::int64_t heads = scratch.heads, first = sinks.byte_offset / size_of(sinks.dtype);
  const RowBlocks blocks(l.graph, l.input_value(0).shape[0]);
  auto* const memory = static_cast<std::byte*>(l.workspace);
  // Others have the gradients of the other heads.
  const bool is_part = l.output_value(0).shape.count() > heads;
  const bool overwrite = !l.accumulate && !is_part;
  if (!l.accumulate && is_part) l.queue.fill(l.out[0], 0, l.output_value(0).bytes());
  with_compute_type(l.graph.compute(), [&]<class T>(T) {
    using A = Acc<T>;
    A* const terms = reinterpret_cast<A*>(memory + scratch.terms);
    A* const rest = reinterpret_cast<A*>(memory + scratch.rest);
    kernels<T>(l).attention_sink_terms(l.queue, shape_of(l.node.as<AttentionAttributes>()), terms,
                                       l.input<T>(0), l.input<A>(1), l.input<T>(2), l.input<T>(3));
    if (l.graph.exact_block() == 0) {
      return kernels<A>(l).bias_grad(l.queue, l.output<A>(0) + first, !overwrite, terms,
                                     blocks.rows, heads, rest);
    }
    A* const made = reinterpret_cast<A*>(memory);
    for (std::int64_t b = 0; b < blocks.count; ++b) {
      kernels<A>(l).bias_grad(l.queue, made, false, terms + b * blocks.rows * heads, blocks.rows,
                              heads, rest);
      l.device.state_kernels().add_fixed_point(
          l.queue, l.output<std::int64_t>(0) + first, reinterpret_cast<const float*>(made), heads,
          l.step, l.fixed_point.limit, overwrite && b == 0, l.fixed_point.overflows);
    }
  });
}

}  // namespace

const OpDefinition attention_sink_grad_op{
    .name = "attention_sink_grad", .infer = infer, .workspace = workspace, .launch = launch};

void require_sinks(const Graph& g, const Node& node) {
  const ValueId sinks = node.inputs[sinks_operand];
  require(
      sinks == no_value || g.value(sinks).shape.count() == node.as<AttentionAttributes>().heads(),
      g, node, "each head has one sink");
}

void add_sink_gradient(GradientBuilder& b, const Node& node, ValueId dctx) {
  const ValueId sinks = node.inputs[sinks_operand];
  if (sinks == no_value) return;
  b.emit(Phase::input_grad, OpKind::attention_sink_grad, node.as<AttentionAttributes>(),
         {node.outputs[0], node.outputs[1], dctx, sinks});
}

}  // namespace trireme::ops
