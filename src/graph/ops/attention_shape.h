// The shape of attention that kernels take, built from a node's attributes.
#pragma once

#include "graph/ops/support.h"

namespace trireme::ops {

inline AttentionShape shape_of(const AttentionRule& rule) {
  AttentionShape shape{rule};
  shape.window = 0;  // first_visible contains it
  return shape;
}

// Number of (query, key) pairs that are not masked. Only causal attention has windows.
inline double pairs_of(const AttentionRule& a) {
  const auto seq = static_cast<double>(a.seq);
  if (!a.causal) return seq * seq;
  const bool hides = a.window > 0 && a.window < a.seq;
  if (hides && a.chunks) {
    const auto chunk = static_cast<double>(a.window), rest = static_cast<double>(a.seq % a.window);
    return 0.5 * ((seq - rest) * (chunk + 1) + rest * (rest + 1));
  }
  const double hidden = hides ? static_cast<double>(a.seq - a.window) : 0;
  return 0.5 * seq * (seq + 1) - 0.5 * hidden * (hidden + 1);
}

// The arguments are operand indices; -1: absent.
inline AttentionShape shape_at_run(const Launch& l, int first_visible, int sample_ids,
                                   int lengths) {
  const auto& a = l.node.as<AttentionAttributes>();
  AttentionShape shape = shape_of(a);
  shape.first_visible = l.input<std::int32_t>(first_visible);
  if (lengths >= 0) shape.lengths = l.input<std::int32_t>(lengths);
  if (a.reports_scores) {
    shape.scores = l.step;
    shape.layer = l.layer;
  }
  shape.dropout = dropout_at_run(a.dropout, l, l.input<std::int64_t>(sample_ids), a.seq);
  return shape;
}

}  // namespace trireme::ops
