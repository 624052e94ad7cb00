// Builders for all forward ops: each adds its op to a graph and returns the result. Activations are
// [rows, columns], rows = batch * seq. Each op's shape rule checks the shapes.
#pragma once

#include "graph/graph.h"

namespace trireme::ops {

// [rows, hidden] = table[ids] (+ position_table[positions]) (+ type_table[types]); the tables after
// the first may be no_value. Ids below `first_id` or past the end of the table belong to other
// ranks and yield zeros.
ValueId embedding(Graph& g, ValueId ids, ValueId table, ValueId positions, ValueId position_table,
                  std::int64_t first_id = 0, ValueId types = no_value,
                  ValueId type_table = no_value);

// LayerNorm or RMSNorm; bias may be no_value. zero_centered: the scale is 1 + weight.
ValueId norm(Graph& g, ValueId x, ValueId weight, ValueId bias, NormKind kind, double eps,
             bool zero_centered = false);

// sum = x + dropout(delta), then normalized: fused residual addition and norm. `seq`: positions per
// sequence; 0: rows / batch, which requires all rows on this rank.
struct SumAndNorm {
  ValueId sum, normed;
};
SumAndNorm add_norm(Graph& g, ValueId x, ValueId delta, ValueId weight, ValueId bias, NormKind kind,
                    double eps, ValueId sample_ids, DropoutRule dropout, std::int64_t seq = 0,
                    bool zero_centered = false);

// x weight^T + bias; weight is [out, in], bias [out] or no_value. Without adds_bias another rank
// adds the bias, but this rank still computes its gradient.
ValueId linear(Graph& g, ValueId x, ValueId weight, ValueId bias, const LinearAttributes& = {});

ValueId activation(Graph& g, ValueId x, const ActivationRule& rule);

// RMSNorm of each query head and key head of qkv separately; weights are [head_dim], one for all
// queries and one for all keys. With all_heads the norm spans all query heads of a row, and all its
// key heads, across all ranks of the group, with weights of that width. Values are copied
// unchanged.
ValueId head_norm(Graph& g, ValueId qkv, ValueId query_weight, ValueId key_weight,
                  const HeadNormAttributes& attributes);

// Applies rotary embedding to queries and keys of qkv in place, and scales queries by the factor of
// their position if query_factor is given.
ValueId rope(Graph& g, ValueId qkv, ValueId cos, ValueId sin, ValueId positions,
             const RopeAttributes& attributes, ValueId query_factor = no_value);

// Assembles the heads of latent attention (DeepSeek-AI 2024, arXiv:2405.04434) as qkv with one
// query, key and value each: q is [rows, heads * head_dim]; kv has, for each head, the non-rotary
// part of its key, then its value; key_rope [rows, rope_dim] is the rotary part shared by all keys.
// Values are zero-padded to head_dim.
ValueId latent_heads(Graph& g, ValueId q, ValueId kv, ValueId key_rope,
                     const LatentAttributes& attributes);
// The first value_dim columns of each head: [rows, heads * head_dim] to [rows, heads * value_dim].
ValueId narrow_heads(Graph& g, ValueId context, const LatentAttributes& attributes);

// qkv [batch * seq, groups * (queries_per_group + 2) * head_dim] to [batch * seq, heads *
// head_dim]. first_visible, sample_ids and lengths may be no_value; positions from its length on
// are masked in each sequence.
ValueId attention(Graph& g, ValueId qkv, ValueId first_visible, ValueId sample_ids,
                  const AttentionAttributes& attributes, ValueId lengths = no_value,
                  ValueId sinks = no_value);

// Attention with sequences sharded over ranks (attributes.cut, attributes.context_ranks): qkv has
// the local rows, first_visible covers whole sequences. Three algorithms: all-gather of keys and
// values; all-to-all from positions to heads (`rank` is this rank's index in the group, and its
// size divides the groups of heads); or a ring that passes keys and values.
ValueId all_gather_attention(Graph& g, ValueId qkv, ValueId first_visible, ValueId sample_ids,
                             const AttentionAttributes& attributes, ValueId sinks = no_value);
ValueId ulysses_attention(Graph& g, ValueId qkv, ValueId first_visible, ValueId sample_ids,
                          const AttentionAttributes& attributes, int rank,
                          ValueId sinks = no_value);
ValueId ring_attention(Graph& g, ValueId qkv, ValueId first_visible, ValueId sample_ids,
                       const AttentionAttributes& attributes, ValueId sinks = no_value);

// Attention of new positions against a KV cache (generation); appends to the caches.
ValueId cached_attention(Graph& g, ValueId qkv, ValueId key_cache, ValueId value_cache,
                         ValueId lengths, const AttentionAttributes& attributes,
                         ValueId sinks = no_value);

// --- linear attention (gated delta net, Mamba-2)
// What its ops read of the positions; each may be no_value (SequencePlaces).
struct SequenceInputs {
  ValueId first_visible = no_value, lengths = no_value, new_tokens = no_value;
};
// SiLU of a causal convolution of each channel; weight is [channels, width], the bias [channels] or
// no_value. `inputs`: the cache of generation, [batch, width - 1, channels].
ValueId short_conv(Graph& g, ValueId x, ValueId weight, ValueId bias, const ShortConvRule& rule,
                   const SequenceInputs& places, ValueId inputs = no_value);
// Logarithms of decays, and rates of writing: [rows, 2, heads]; with time steps skips as well.
ValueId decay_rates(Graph& g, ValueId ba, ValueId a_log, ValueId dt_bias, const DecayRule& rule,
                    ValueId skip = no_value);
// [rows, heads * value_dim]. `state`: the cache of generation, [batch, heads, key_dim, value_dim],
// in the accumulation type.
ValueId delta_rule(Graph& g, ValueId qkv, ValueId rates, const DeltaRule& rule,
                   const SequenceInputs& places, ValueId state = no_value);
// norm(x) * activation(gate) by head, or the norm of that product; weight: as in GateHeadsRule, or
// no_value without the norm.
ValueId gate_heads(Graph& g, ValueId x, ValueId gate, ValueId weight,
                   const GateHeadsAttributes& attributes);

// a + dropout(b); a may be no_value.
ValueId add(Graph& g, ValueId a, ValueId b, ValueId sample_ids, DropoutRule dropout,
            std::int64_t seq);

// factor * x.
ValueId scale(Graph& g, ValueId x, double factor);

// cap * tanh(x / cap).
ValueId soft_cap(Graph& g, ValueId x, double cap);

// Rows [first_row, first_row + rows) of x, without a copy.
ValueId slice(Graph& g, ValueId x, std::int64_t first_row, std::int64_t rows);

// [count, columns]: gathers the rows of x with the given indices (i32 [count], repeats allowed).
ValueId gather(Graph& g, ValueId x, ValueId row_numbers);

// Cross-entropy per row, f32 [rows]; logits [rows, padded vocabulary], of which `vocab` are real.
// The gradient overwrites the logits. Without loss_weights, rows are losses per sample. With a
// group, the columns are ids [first_id, first_id + vocab) of a vocabulary sharded over its ranks;
// every rank gets the same losses. `leaves`: see LossAttributes.
ValueId cross_entropy(Graph& g, ValueId logits, ValueId targets, ValueId loss_weights,
                      std::int64_t vocab, std::int64_t first_id = 0, GraphGroup group = {},
                      std::int64_t leaves = 0);

// Copies x with permuted order.
ValueId reorder(Graph& g, ValueId x, const ReorderAttributes& order);

// --- mixture of experts
// Logits of a router, f32 (f64 with f64) [rows, experts]; weight is [experts, in], bias [experts]
// or no_value.
ValueId router(Graph& g, ValueId x, ValueId weight, ValueId bias = no_value);
// The experts of each row, rising, and what they weigh: [rows, top_k].
struct Routes {
  ValueId weights, chosen;
};
// `load`: that of the previous step, for a load-balancing loss over the global batch.
Routes route(Graph& g, ValueId logits, const RouteAttributes& attributes, ValueId bias = no_value,
             ValueId load = no_value);
// Position of each choice among the rows sorted by expert (i32 [rows, top_k], -1: dropped), and
// start offset of each expert's rows (i32 [experts + 1]; with blocks of rows, the start of each
// block within each expert: [experts * blocks + 1]).
struct Places {
  ValueId places, offsets;
};
Places dispatch(Graph& g, const Routes& routes, const DispatchRule& attributes);
// The rows of x sorted by expert, [taken, columns], each times its choice's weight if they are
// given; zeros after the last row.
ValueId permute_rows(Graph& g, ValueId x, const Places& places, std::int64_t taken,
                     ValueId weights = no_value);
// Per row the sum of what its experts made of it, in the order of experts.
ValueId unpermute_rows(Graph& g, ValueId x, const Places& places);
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
// Mixes a and b with the softmax of each row's logits [rows, 2].
ValueId mix_rows(Graph& g, ValueId a, ValueId b, ValueId logits);
// What experts that are distributed over a group's ranks make of rows by expert, [taken, in]: the
// rows travel to their experts and the results come back. up is [own experts * wide, in], down [own
// experts * in, out of the activation]; offsets are those of all experts. biases: of each own
// expert those of up, then those of down, or no_value.
ValueId remote_experts(Graph& g, ValueId rows, ValueId offsets, ValueId up, ValueId down,
                       const RemoteExpertsAttributes& attributes, ValueId biases = no_value);
// Per row the sum of what its experts made of it, each by its weight, in the order of experts.
ValueId combine(Graph& g, ValueId x, const Routes& routes, const Places& places);

// --- collectives over a group's ranks; with a single rank nothing is emitted ---
// Identity in the forward pass; all-reduce of the gradient.
ValueId grad_all_reduce(Graph& g, ValueId x, GraphGroup group);
// All-reduce (sum); the gradient passes unchanged. in_place: x must be a value that no other op
// reads.
ValueId all_reduce(Graph& g, ValueId x, GraphGroup group, bool in_place);
// Concatenates the rows of all ranks: [rows * size, columns]. Its gradient is a
// reduce_scatter.
ValueId all_gather(Graph& g, ValueId x, GraphGroup group);
// All-gather for consumers that every rank computes identically, so that each rank has the complete
// gradient: rank `own` takes its rows of it.
ValueId gather_rows(Graph& g, ValueId x, GraphGroup group, int own);
// Takes rank `own`'s rows of a replicated value. Its gradient is an all_gather.
ValueId local_rows(Graph& g, ValueId x, GraphGroup group, int own);
// Each element is +0 on all ranks but one; returns that rank's bits: all rows, or with `scatters`
// only the local rows. The gradients are those of all_reduce and reduce_scatter.
ValueId select_rows(Graph& g, ValueId x, GraphGroup group, bool scatters);
// The local rows of the sum over all ranks: [rows / size, columns]. Its gradient is an all_gather.
ValueId reduce_scatter(Graph& g, ValueId x, GraphGroup group);
// Sends part k of the rows to rank k; part k of the result comes from rank k. Its gradient is the
// inverse, also an all_to_all.
ValueId all_to_all(Graph& g, ValueId x, GraphGroup group);

}  // namespace trireme::ops
