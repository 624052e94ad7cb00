// Every op of the forward pass as a function that adds it to a graph and returns its result.
// Activations are [rows, columns], rows = batch * seq. Shapes are checked by each op's rule.
#pragma once

#include "graph/graph.h"

namespace trireme::ops {

// [rows, hidden] = table[ids] (+ positions_table[positions]); positions_table may be no_value.
// `first_id`: ids below it and behind the table belong to other ranks and give zeros.
ValueId embedding(Graph& g, ValueId ids, ValueId table, ValueId positions, ValueId position_table,
                  std::int64_t first_id = 0);

// LayerNorm or RMSNorm; bias may be no_value.
ValueId norm(Graph& g, ValueId x, ValueId weight, ValueId bias, NormKind kind, double eps);

// sum = x + dropout(delta), normalised: the residual addition and the norm behind it in one pass.
struct SumAndNorm {
  ValueId sum, normed;
};
SumAndNorm add_norm(Graph& g, ValueId x, ValueId delta, ValueId weight, ValueId bias, NormKind kind,
                    double eps, ValueId sample_ids, DropoutAttributes dropout);

// x weight^T + bias; weight is [out, in], bias [out] or no_value.
ValueId linear(Graph& g, ValueId x, ValueId weight, ValueId bias);

ValueId activation(Graph& g, ValueId x, ActivationKind kind);

// Rotates queries and keys of qkv in place.
ValueId rope(Graph& g, ValueId qkv, ValueId cos, ValueId sin, ValueId positions,
             const RopeAttributes& attributes);

// qkv [batch * seq, groups * (queries_per_group + 2) * head_dim] to [batch * seq, heads *
// head_dim]. first_visible and sample_ids may be no_value.
ValueId attention(Graph& g, ValueId qkv, ValueId first_visible, ValueId sample_ids,
                  const AttentionAttributes& attributes);

// The same for new positions against a cache (generation); appends to the caches.
ValueId cached_attention(Graph& g, ValueId qkv, ValueId key_cache, ValueId value_cache,
                         ValueId lengths, const AttentionAttributes& attributes);

// a + dropout(b); a may be no_value.
ValueId add(Graph& g, ValueId a, ValueId b, ValueId sample_ids, DropoutAttributes dropout,
            std::int64_t seq);

// Rows [first_row, first_row + rows) of x, without a copy.
ValueId slice(Graph& g, ValueId x, std::int64_t first_row, std::int64_t rows);

// Cross-entropy per row, f32 [rows]; logits [rows, padded vocabulary] of which `vocab` count. The
// gradient (weighted by loss_weights and the step's grad_scale) overwrites the logits.
ValueId cross_entropy(Graph& g, ValueId logits, ValueId targets, ValueId loss_weights,
                      std::int64_t vocab, std::int64_t first_id = 0);

}  // namespace trireme::ops
