// Attention sinks as every kind of attention op handles them: one number per head, operand
// `sinks_operand` of each op.
#pragma once

#include "graph/ops/support.h"

namespace trireme::ops {

inline constexpr int sinks_operand = 4;

// Checks the operand, if there is one.
void require_sinks(const Graph& g, const Node& node);

// Turns the context and its log-sum-exp, outputs 0 and 1, into those with sinks.
template <class T>
void apply_sinks(const Launch& l, const AttentionShape& shape) {
  if (!l.in[sinks_operand]) return;
  kernels<T>(l).attention_sink(l.queue, shape, l.output<T>(0), l.output<Acc<T>>(1),
                               l.input<T>(sinks_operand));
}

// Emits the gradient of the sinks, if there are any; dctx is that of the node's context.
void add_sink_gradient(GradientBuilder& b, const Node& node, ValueId dctx);

}  // namespace trireme::ops
