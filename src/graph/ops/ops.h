// Every op of the forward pass as a function that adds it to a graph and returns its result.
// Activations are [rows, columns], rows = batch * seq. Shapes are checked by each op's rule.
#pragma once

#include "graph/graph.h"

namespace trireme::ops {

// [rows, hidden] = table[ids] (+ position_table[positions]) (+ type_table[types]); the tables
// after the first may be no_value. `first_id`: ids below it and past the table belong to other
// ranks and give zeros.
ValueId embedding(Graph& g, ValueId ids, ValueId table, ValueId positions, ValueId position_table,
                  std::int64_t first_id = 0, ValueId types = no_value,
                  ValueId type_table = no_value);

// LayerNorm or RMSNorm; bias may be no_value. zero_centered: what multiplies is 1 + weight.
ValueId norm(Graph& g, ValueId x, ValueId weight, ValueId bias, NormKind kind, double eps,
             bool zero_centered = false);

// sum = x + dropout(delta), normalized: the residual addition and the norm after it in one pass.
// `seq`: positions per sequence; 0: rows / batch, which is right where all rows are here.
struct SumAndNorm {
  ValueId sum, normed;
};
SumAndNorm add_norm(Graph& g, ValueId x, ValueId delta, ValueId weight, ValueId bias, NormKind kind,
                    double eps, ValueId sample_ids, DropoutRule dropout, std::int64_t seq = 0,
                    bool zero_centered = false);

// x weight^T + bias; weight is [out, in], bias [out] or no_value. Without adds_bias the bias is
// left to another rank, but still gets its gradient.
ValueId linear(Graph& g, ValueId x, ValueId weight, ValueId bias, const LinearAttributes& = {});

ValueId activation(Graph& g, ValueId x, const ActivationRule& rule);

// RMSNorm of each head of the queries and of the keys of qkv, by itself; weights are [head_dim],
// one for all queries and one for all keys. With all_heads it is over all heads of a row's queries,
// and over those of its keys, with weights as wide: of all ranks of a group together. Values pass
// as they are.
ValueId head_norm(Graph& g, ValueId qkv, ValueId query_weight, ValueId key_weight,
                  const HeadNormAttributes& attributes);

// Rotates queries and keys of qkv in place, and multiplies queries by the factor of their position
// where there are factors.
ValueId rope(Graph& g, ValueId qkv, ValueId cos, ValueId sin, ValueId positions,
             const RopeAttributes& attributes, ValueId query_factor = no_value);

// The heads of latent attention (DeepSeek-AI 2024, arXiv:2405.04434) as qkv of one query, key and
// value each: q is [rows, heads * head_dim]; kv has for each head the part of its key that
// positions do not turn, then its value; key_rope [rows, rope_dim] is the other part of every key.
// Values are widened to head_dim by zeros.
ValueId latent_heads(Graph& g, ValueId q, ValueId kv, ValueId key_rope,
                     const LatentAttributes& attributes);
// The first value_dim columns of each head: [rows, heads * head_dim] to [rows, heads * value_dim].
ValueId narrow_heads(Graph& g, ValueId context, const LatentAttributes& attributes);

// qkv [batch * seq, groups * (queries_per_group + 2) * head_dim] to [batch * seq, heads *
// head_dim]. first_visible, sample_ids and lengths may be no_value; no position looks at those of
// its sequence from its length on. sinks [heads], here and below: a further score of each head,
// without a value; or no_value.
ValueId attention(Graph& g, ValueId qkv, ValueId first_visible, ValueId sample_ids,
                  const AttentionAttributes& attributes, ValueId lengths = no_value,
                  ValueId sinks = no_value);

// The same among ranks that share sequences (attributes.cut, attributes.context_ranks): qkv has
// this rank's rows, first_visible those of whole sequences. By gathering keys and values; by
// exchanging positions for heads, where `rank` is this one's place in the group and the groups of
// heads divide by its size; or by passing keys and values from rank to rank.
ValueId all_gather_attention(Graph& g, ValueId qkv, ValueId first_visible, ValueId sample_ids,
                             const AttentionAttributes& attributes, ValueId sinks = no_value);
ValueId ulysses_attention(Graph& g, ValueId qkv, ValueId first_visible, ValueId sample_ids,
                          const AttentionAttributes& attributes, int rank,
                          ValueId sinks = no_value);
ValueId ring_attention(Graph& g, ValueId qkv, ValueId first_visible, ValueId sample_ids,
                       const AttentionAttributes& attributes, ValueId sinks = no_value);

// The same for new positions against a cache (generation); appends to the caches.
ValueId cached_attention(Graph& g, ValueId qkv, ValueId key_cache, ValueId value_cache,
                         ValueId lengths, const AttentionAttributes& attributes,
                         ValueId sinks = no_value);

// a + dropout(b); a may be no_value.
ValueId add(Graph& g, ValueId a, ValueId b, ValueId sample_ids, DropoutRule dropout,
            std::int64_t seq);

// factor * x.
ValueId scale(Graph& g, ValueId x, double factor);

// cap * tanh(x / cap).
ValueId soft_cap(Graph& g, ValueId x, double cap);

// Rows [first_row, first_row + rows) of x, without a copy.
ValueId slice(Graph& g, ValueId x, std::int64_t first_row, std::int64_t rows);

// [count, columns]: the rows of x with the given numbers (i32 [count]), which may repeat.
ValueId gather(Graph& g, ValueId x, ValueId row_numbers);

// Cross-entropy per row, f32 [rows]; logits [rows, padded vocabulary] of which `vocab` count. The
// gradient overwrites the logits; no_value for loss_weights: rows are losses per sample. With a
// group the columns are the ids [first_id, first_id + vocab) of a vocabulary that all of them
// share; every rank gets the same losses. `leaves`: see LossAttributes.
ValueId cross_entropy(Graph& g, ValueId logits, ValueId targets, ValueId loss_weights,
                      std::int64_t vocab, std::int64_t first_id = 0, GraphGroup group = {},
                      std::int64_t leaves = 0);

// A copy of x in another order.
ValueId reorder(Graph& g, ValueId x, const ReorderAttributes& order);

// --- mixture of experts
// Logits of a router, f32 (f64 with f64) [rows, experts]; weight is [experts, in], bias [experts]
// or no_value.
ValueId router(Graph& g, ValueId x, ValueId weight, ValueId bias = no_value);
// The experts of each row, rising, and what they weigh: [rows, top_k].
struct Routes {
  ValueId weights, chosen;
};
// load: of the step before, for a balance loss over the whole batch.
Routes route(Graph& g, ValueId logits, const RouteAttributes& attributes, ValueId bias = no_value,
             ValueId load = no_value);
// Position of each choice among the rows by expert (i32 [rows, top_k], -1: dropped), and start of
// each expert's rows (i32 [experts + 1]; with blocks of rows, where those of each block do within
// them: [experts * blocks + 1]).
struct Places {
  ValueId places, offsets;
};
Places dispatch(Graph& g, const Routes& routes, const DispatchRule& attributes);
// The rows of x by expert, [taken, columns]; zeros after the last one.
ValueId permute_rows(Graph& g, ValueId x, const Places& places, std::int64_t taken);
// Biases of a linear layer of experts among those of all their layers, a parameter [experts *
// stride]: those of expert e lie at e * stride + first.
struct GroupBias {
  ValueId biases = no_value;
  std::int64_t first = 0, stride = 0;
};
// x weight[e]^T, with its bias, for each row of expert e; weight is [experts * out, in]. `blocks`:
// as the offsets have.
ValueId grouped_linear(Graph& g, ValueId x, ValueId weight, ValueId offsets,
                       std::int64_t blocks = 1, const GroupBias& bias = {});
// x times the sigmoid of each row's number, gates [rows, 1].
ValueId gate_rows(Graph& g, ValueId x, ValueId gates);
// a and b in two shares, the softmax of each row's logits [rows, 2].
ValueId mix_rows(Graph& g, ValueId a, ValueId b, ValueId logits);
// What experts that are distributed over a group's ranks make of rows by expert, [taken, in]: the
// rows travel to their experts and the results come back. up is [own experts * wide, in], down [own
// experts * in, out of the activation]; offsets are those of all experts. biases: of each own
// expert those of up, then those of down, or no_value.
ValueId remote_experts(Graph& g, ValueId rows, ValueId offsets, ValueId up, ValueId down,
                       const RemoteExpertsAttributes& attributes, ValueId biases = no_value);
// Per row the sum of what its experts made of it, each by its weight, in the order of experts.
ValueId combine(Graph& g, ValueId x, const Routes& routes, const Places& places);

// --- collectives among the ranks of a group; with one rank nothing is emitted ---
// Identity; the gradient is summed over the ranks.
ValueId grad_all_reduce(Graph& g, ValueId x, GraphGroup group);
// Sum over the ranks, on all of them; the gradient passes unchanged. In place: x is a value that
// nothing else reads.
ValueId all_reduce(Graph& g, ValueId x, GraphGroup group, bool in_place);
// The rows of all ranks, one after another: [rows * size, columns]. The gradient:
// reduce_scatter.
ValueId all_gather(Graph& g, ValueId x, GraphGroup group);
// The same for what all ranks compute alike from the rows, whose whole gradient each of them has:
// rank `own` takes its rows of it.
ValueId gather_rows(Graph& g, ValueId x, GraphGroup group, int own);
// Rank `own` takes its rows of what all ranks have alike. The gradient: all_gather.
ValueId local_rows(Graph& g, ValueId x, GraphGroup group, int own);
// Of each element, +0 on all ranks but one, that one's bits: all rows, or with `scatters` this
// rank's. The gradients are those of all_reduce and reduce_scatter.
ValueId select_rows(Graph& g, ValueId x, GraphGroup group, bool scatters);
// This rank's rows of the sum over all ranks: [rows / size, columns]. The gradient: all_gather.
ValueId reduce_scatter(Graph& g, ValueId x, GraphGroup group);
// Part k of the rows goes to rank k, and part k of the result comes from it. The gradient: the
// same.
ValueId all_to_all(Graph& g, ValueId x, GraphGroup group);

}  // namespace trireme::ops
