// The shape of attention as kernels take it, from a node's attributes.
#pragma once

#include "graph/ops/support.h"

namespace trireme::ops {

inline AttentionShape shape_of(const AttentionRule& rule) {
  AttentionShape shape{rule};
  shape.window = 0;  // first_visible contains it
  return shape;
}

// Pairs of positions of a sequence that see each other. Only causal attention has windows.
inline double pairs_of(const AttentionRule& a) {
  const auto seq = static_cast<double>(a.seq);
  if (!a.causal) return seq * seq;
  const double hidden =
      a.window > 0 && a.window < a.seq ? static_cast<double>(a.seq - a.window) : 0;
  return 0.5 * seq * (seq + 1) - 0.5 * hidden * (hidden + 1);
}

// With the operands of these numbers; -1: none.
inline AttentionShape shape_at_run(const Launch& l, int first_visible, int sample_ids,
                                   int lengths) {
  const auto& a = l.node.as<AttentionAttributes>();
  AttentionShape shape = shape_of(a);
  shape.first_visible = l.input<std::int32_t>(first_visible);
  if (lengths >= 0) shape.lengths = l.input<std::int32_t>(lengths);
  shape.dropout = dropout_at_run(a.dropout, l, l.input<std::int64_t>(sample_ids), a.seq);
  return shape;
}

}  // namespace trireme::ops
