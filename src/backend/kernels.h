// Function tables of a device's kernels. Kernels take raw device pointers and sizes and know
// nothing else. A device has one table per storage type, plus one for the kernels that do not
// depend on a storage type (state_kernels.h).
//
// Every kernel takes the queue first and is enqueued on it; on the CPU it has finished when
// the call returns. T is the storage type of activations and compute weights: float, bf16,
// f16 or double. Acc<T> is the type of arithmetic, statistics and weight gradients: double
// for double, else float. Tensors are row-major; `rows` counts tokens. Kernels partition
// work by the problem size only and reduce in a fixed order, so results are deterministic.
// They never allocate: kernels that need scratch document its size. Step-dependent values
// are read from a StepBlock in device memory. `accumulate` false overwrites the
// destination, true adds to it.
#pragma once

#include <cstdint>

#include "backend/kernel_operands.h"
#include "backend/shapes.h"

namespace trireme {

class ExactSum;
class Queue;

inline constexpr std::int64_t square_block = 256;  // the longest block of add_squares()

template <class T>
struct Kernels {
  using A = Acc<T>;

  // y = norm(x) * weight + bias. mean may be null for RMSNorm; bias may be null. If delta is given:
  // sum = x + dropout(delta) is stored and normalized instead of x; sum may be x or delta. mean,
  // rstd are [rows]; both may be null where no gradient is wanted. y may be x.
  void (*norm)(Queue&, const NormShape&, T* y, A* mean, A* rstd, const T* x, const T* weight,
               const T* bias, T* sum, const T* delta, const Dropout&);
  // dx = dres + d norm / dx; adds to dweight and dbias.
  void (*norm_grad)(Queue&, const NormShape&, const NormGradOperands<T>&);

  // RMSNorm of queries and keys per head: y = x / rms(x) * weight, with one weight [head_dim]
  // shared by all query heads and one by all key heads; values are copied. rstd is [rows, norms()]
  // in head order and may be null when no gradient is needed. y must not alias x. With all_heads,
  // rms(x) is taken over all query (or key) heads of the row and the weights have that width; when
  // ranks split the heads, `sums` is head_sums reduced over all ranks, else null.
  void (*head_norm)(Queue&, const HeadNormShape&, T* y, A* rstd, const T* x, const T* query_weight,
                    const T* key_weight, const A* sums);
  void (*head_norm_grad)(Queue&, const HeadNormShape&, const HeadNormGradOperands<T>&);
  // With all_heads: sums [rows, 2] over the local query and key heads of x^2 or, if dy is given, of
  // x dy weight (without dy the weights are null). Keys that this rank does not own count only in
  // the sum with dy, because dy differs between ranks.
  void (*head_sums)(Queue&, const HeadNormShape&, A* sums, const T* x, const T* dy,
                    const T* query_weight, const T* key_weight);

  // y = activation(x): x is [rows, cols], or [rows, 2 * cols] = gate | up for gated kinds. But
  // for these, y may be x.
  void (*activation)(Queue&, const ActivationRule&, T* y, const T* x, std::int64_t rows,
                     std::int64_t cols);
  void (*activation_grad)(Queue&, const ActivationRule&, const ActivationGradOperands<T>&,
                          std::int64_t rows, std::int64_t cols);

  // y = a + dropout(b); y may be a or b. With a null: y = dropout(b).
  void (*add)(Queue&, T* y, const T* a, const T* b, std::int64_t rows, std::int64_t cols,
              const Dropout&);

  // y = factor * x; y may be x.
  void (*scale)(Queue&, T* y, const T* x, std::int64_t count, double factor);

  // y = cap tanh(x / cap), and dx = dy (1 - tanh(x / cap)^2); y may be x, and dx may be dy or x.
  void (*soft_cap)(Queue&, T* y, const T* x, std::int64_t count, double cap);
  void (*soft_cap_grad)(Queue&, T* dx, const T* dy, const T* x, std::int64_t count, double cap);

  // Rotates queries and keys of a qkv buffer in place (rotate-half form over the first rotary_dim
  // of each head). cos, sin: [positions, rotary_dim / 2]; row r has position positions[r], or
  // r % seq if positions is null. direction +1 forward, -1 for the gradient. Queries are then
  // multiplied by query_factor, [positions], unless it is null.
  void (*rope)(Queue&, T* qkv, const AttentionShape&, std::int64_t rotary_dim, const A* cos,
               const A* sin, const A* query_factor, const std::int32_t* positions, int direction);

  // Computes ctx and the log-sum-exp of each query, lse [batch, heads, seq]. Never materializes seq
  // x seq. Both kernels take attention_workspace() bytes of scratch (workspace.h).
  void (*attention)(Queue&, const AttentionShape&, T* ctx, A* lse, const T* qkv, void* workspace);
  void (*attention_grad)(Queue&, const AttentionShape&, const AttentionGradOperands<T>&);

  // Context parallelism (shape.cut): causal attention of a rank's two chunks to the keys and values
  // of whole sequences, bitwise equal to attention() for these queries. qkv is the rank's [batch *
  // 2 * chunk, ...]; kv is [batch * seq, groups * 2 * head_dim], each column group being a key and
  // its value; lse is [batch, groups, 2, queries_per_group, chunk].
  void (*context_attention)(Queue&, const AttentionShape&, T* ctx, A* lse, const T* qkv,
                            const T* kv);
  // delta has the layout of lse: the row-wise dot products of ctx and dctx.
  void (*attention_delta)(Queue&, const AttentionShape&, A* delta, const T* ctx, const T* dctx);
  // Gradient of the rank's queries, and that of its keys and values from the queries of all ranks.
  // dqkv is the rank's; everything else covers whole sequences: qkv [batch * seq, ...], dctx [batch
  // * seq, ...], lse and delta [batch, heads, seq].
  void (*context_attention_grad)(Queue&, const AttentionShape&, T* dqkv, const T* qkv,
                                 const T* dctx, const A* lse, const A* delta, void* workspace);
  // One step of ring attention: the rank's two query chunks against the keys and values of the rank
  // that owns the chunks `keys`, kv [batch * 2 * chunk, groups * 2 * head_dim]. `first` marks the
  // first step, over the rank's own keys; later steps add to sums [batch * 2 * chunk, ctx columns]
  // and to lse (layout above). ctx is null except in the last step.
  void (*ring_attention)(Queue&, const AttentionShape&, const SequenceCut& keys, bool first, T* ctx,
                         A* sums, A* lse, const T* qkv, const T* kv);
  // Backward of ring_attention: adds to dkv (layout of kv) and to the query gradient in the
  // workspace. dqkv is null except in the last step, which writes its query columns.
  void (*ring_attention_grad)(Queue&, const AttentionShape&, const SequenceCut& keys, bool first,
                              T* dqkv, A* dkv, const T* qkv, const T* kv, const T* dctx,
                              const A* lse, const A* delta, void* workspace);
  // Writes the key and value columns of dqkv: the sum of the two dkv buffers.
  void (*ring_key_grads)(Queue&, const AttentionShape&, T* dqkv, const A* own, const A* arrived);
  void (*copy_blocks)(Queue&, T* dst, const T* src, const BlockCopy&);
  // Like copy_blocks, but blocks that differ only in k are summed, in order of k;
  // dst_strides[2] is not read.
  void (*sum_blocks)(Queue&, T* dst, const T* src, const BlockCopy&);

  // Appends the keys and values of qkv [batch * seq, ...] to the caches at positions
  // lengths[b] .. lengths[b] + seq, then attends causally. lengths is [batch]; lse [batch, heads,
  // seq] may be null. workspace: what ops plan for it.
  void (*cached_attention)(Queue&, const CachedAttentionShape&, T* ctx, A* lse, const T* qkv,
                           T* key_cache, T* value_cache, const std::int32_t* lengths, A* workspace);

  // y = table[ids[r]] + position_table[position] (+ type_table[types[r]]). Ids outside [first_id,
  // first_id + local_ids) belong to another rank and give rows of zeros, without position and type
  // embeddings, so that the sum over ranks is the full result.
  void (*embedding)(Queue&, const EmbeddingOperands<T>&);
  // dtable[ids[r] - first_id] += dy[r]; rows of equal id are summed in row order. With accumulate
  // false, all local_ids rows are overwritten (with zeros for ids that do not occur). Scratch:
  // embedding_grad_workspace.
  void (*embedding_grad)(Queue&, A* dtable, bool accumulate, const std::int32_t* ids, const T* dy,
                         std::int64_t rows, std::int64_t cols, std::int64_t first_id,
                         std::int64_t local_ids, std::int32_t* workspace);

  // Per row: the largest logit, the sum of exp(logit - largest), and the target's logit (0 if the
  // target lies outside [first_id, first_id + vocab)). Columns from vocab to ld are padding.
  void (*softmax_stats)(Queue&, A* largest, A* sum, A* target_logit, const T* logits,
                        const std::int32_t* targets, std::int64_t rows, std::int64_t vocab,
                        std::int64_t ld, std::int64_t first_id);
  // logits <- (exp(logits - lse) - onehot(target)) * weights[r] * grad_scale, in place; padding <-
  // 0. With null weights each row is the loss of a sample and is scaled by the step's sample_scale.
  void (*cross_entropy_grad)(Queue&, T* logits, const A* lse, const std::int32_t* targets,
                             const float* weights, const StepBlock* block, std::int64_t rows,
                             std::int64_t vocab, std::int64_t ld, std::int64_t first_id);

  // Fuses softmax_stats, token_loss and cross_entropy_grad, bitwise equal to them; a row is still
  // in cache when its gradient is written.
  void (*classifier)(Queue&, T* logits, A* loss, const std::int32_t* targets, const float* weights,
                     const StepBlock* block, std::int64_t rows, std::int64_t vocab, std::int64_t ld,
                     std::int64_t first_id);

  // Vocabulary parallelism: sums[r] is the local sum of exponentials rescaled to the largest logit
  // of all ranks, sums[rows + r] the target's logit. The caller then sums both over ranks.
  void (*softmax_rescale)(Queue&, A* sums, const A* sum, const A* target_logit,
                          const A* local_largest, const A* largest, std::int64_t rows);
  // lse = largest + log(sum); loss = lse - target_logit.
  void (*token_loss)(Queue&, A* loss, A* lse, const A* largest, const A* sum, const A* target_logit,
                     std::int64_t rows);

  // y[i] = x[numbers[i]], for i below `taken`; numbers lie in [0, source_rows).
  void (*gather)(Queue&, T* y, const T* x, const std::int32_t* numbers, std::int64_t taken,
                 std::int64_t columns, std::int64_t source_rows);
  // dx[numbers[i]] = sum of the dy[i] with that number, in order of i; other rows are zero.
  void (*gather_grad)(Queue&, T* dx, const T* dy, const std::int32_t* numbers, std::int64_t taken,
                      std::int64_t columns, std::int64_t source_rows);

  // Updates router biases toward a balanced load from the choices per expert that
  // route_grad counts: master += rate * sign(mean - choices). Also stores them in the
  // compute type, unless compute is null.
  void (*update_router_bias)(Queue&, A* master, T* compute, const A* choices, double rate,
                             std::int64_t experts);
  // Stores the load relative to its mean in the same way: master = choices / mean.
  void (*update_router_load)(Queue&, A* master, T* compute, const A* choices, std::int64_t experts);

  // --- experts; `places` [rows, top_k]: where a choice lies among the rows by expert, -1: dropped
  // logits[r][e] = x[r] . weight[e] + bias[e], in A, with bits that depend on that row alone; bias
  // may be null.
  void (*router)(Queue&, A* logits, const T* x, const T* weight, const T* bias, std::int64_t rows,
                 std::int64_t cols, std::int64_t experts);
  // dx = dres + dlogits weight; dres may be null, and may be dx.
  void (*router_input_grad)(Queue&, T* dx, const T* dres, const A* dlogits, const T* weight,
                            std::int64_t rows, std::int64_t cols, std::int64_t experts);
  // dweight (+)= dlogits^T x, rows in order.
  void (*router_weight_grad)(Queue&, A* dweight, bool accumulate, const A* dlogits, const T* x,
                             std::int64_t rows, std::int64_t cols, std::int64_t experts);
  // weights, chosen: [rows, top_k], the experts of a row in ascending order. bias [experts] may be
  // null; it is added to the scores for selection only, not to the weights.
  void (*route)(Queue&, const RouterShape&, A* weights, std::int32_t* chosen, const A* logits,
                const T* bias);
  // dlogits from the gradient of the weights and from the router losses. Adds the losses and the
  // kept and dropped choices to the step's expert totals, if any, as layer `layer`. dbias may be
  // null; it (+)= kept choices per expert * loss scale * choice_unit. counts [units, experts]:
  // choices by plain score over whole units; null if all rows of the units are local. load
  // [experts] may be null: each expert's choice count in the previous step over the mean; the
  // balance loss then uses it in place of the unit's own choices, and dload (+)= this step's
  // choices by plain score, scaled like dbias.
  void (*route_grad)(Queue&, const RouterShape&, const RouterLosses&, const RouteGradOperands<T>&);
  // Sets counts to these rows' part of those of route_grad. plain: `chosen` is by plain score.
  void (*routed_tokens)(Queue&, const RouterShape&, const RouterLosses&, std::int64_t units,
                        bool plain, std::int64_t* counts, const A* logits,
                        const std::int32_t* chosen);
  // Computes places, and offsets [experts * blocks + 1]: the first row of each expert and, within
  // it, of each block of rows. workspace: rows * top_k elements, for a capacity only.
  void (*dispatch)(Queue&, const DispatchShape&, std::int32_t* places, std::int32_t* offsets,
                   const std::int32_t* chosen, const A* weights, std::int32_t* workspace);
  // y[places[r][j]] = weights[r][j] * x[r], or x[r] if weights is null; rows of y from
  // offsets[experts] on are zero. y: [taken, cols].
  void (*permute_rows)(Queue&, const PermuteShape&, T* y, const T* x, const A* weights,
                       const std::int32_t* places, const std::int32_t* offsets);
  // y[r] = the sum over j of x[places[r][j]], in order of j.
  void (*unpermute_rows)(Queue&, T* y, const T* x, const std::int32_t* places, std::int64_t rows,
                         std::int64_t cols, std::int64_t top_k);
  // y[r] = the sum over j of weights[r][j] * x[places[r][j]], in order of j.
  void (*combine_rows)(Queue&, T* y, const T* x, const A* weights, const std::int32_t* places,
                       std::int64_t rows, std::int64_t cols, std::int64_t top_k);
  // dx[places[r][j]] = weights[r][j] * dy[r], zero from offsets[experts] on; dweights[r][j] = dy[r]
  // . x[places[r][j]], zero if the choice was dropped.
  void (*combine_rows_grad)(Queue&, const PermuteShape&, const CombineGradOperands<T>&);
  // y[r] = sigmoid(gates[r]) * x[r], and its gradients; y may be x.
  void (*gate_rows)(Queue&, T* y, const T* x, const A* gates, std::int64_t rows, std::int64_t cols);
  void (*gate_rows_grad)(Queue&, T* dx, A* dgates, const T* dy, const T* x, const A* gates,
                         std::int64_t rows, std::int64_t cols);
  // y[r] = c0 a[r] + c1 b[r], where c0 and c1 are the softmax of the row's two logits, [rows, 2]; y
  // may alias a or b. mix_rows_grad computes the gradients.
  void (*mix_rows)(Queue&, T* y, const T* a, const T* b, const T* logits, std::int64_t rows,
                   std::int64_t cols);
  void (*mix_rows_grad)(Queue&, T* da, T* db, T* dlogits, const T* dy, const T* a, const T* b,
                        const T* logits, std::int64_t rows, std::int64_t cols);

  // largest [tiles.count()]: the largest magnitude (amax) of each tile, as a float, ignoring NaN.
  // Tiles of unused bands get zero.
  void (*fp8_largest)(Queue&, const Fp8Tiles&, float* largest, const T* x);
  // y = x after a round trip through fp8: with s = fp8_scale(largest), float(x) * s is rounded to
  // fp8 and multiplied by 1 / s, both in float. Non-finite values become NaN.
  void (*fp8_round)(Queue&, const Fp8Tiles&, const float* largest, A* y, const T* x);
  // Same, stored as T; this is exact if T is bf16 and the scales are powers of two.
  void (*fp8_round_stored)(Queue&, const Fp8Tiles&, const float* largest, T* y, const T* x);
  // Writes the fp8 bytes of these numbers (before the multiplication by 1 / s). Groups are not
  // supported. With `chunk` > 0, a multiple of 4 that divides the rows, each block of `chunk` rows
  // is transposed: y is [rows / chunk, cols, chunk].
  void (*fp8_bytes)(Queue&, const Fp8Tiles&, const float* largest, std::uint8_t* y, const T* x,
                    std::int64_t chunk);
  // 1 / s of each tile, in float, for products of fp8 bytes. y is [bands(), ld] with tiles_of_row()
  // values per row; or with `chunk` > 0, which divides the bands, [bands() / chunk, tiles_of_row(),
  // ld] with `chunk` values per row. The rest of a row is zero-filled.
  void (*fp8_inverse_scales)(Queue&, const Fp8Tiles&, const float* largest, float* y,
                             std::int64_t chunk, std::int64_t ld);
  // y = x + bias, converted to T; the bias is added to every row and may be null.
  void (*store_sums)(Queue&, T* y, const A* x, const T* bias, std::int64_t rows, std::int64_t cols);

  // dbias[c] (+)= sum over rows of dy[r][c], rows in fixed order. workspace: bias_grad_workspace.
  void (*bias_grad)(Queue&, A* dbias, bool accumulate, const T* dy, std::int64_t rows,
                    std::int64_t cols, A* workspace);

  // Stores master weights in the compute type.
  void (*cast_from_master)(Queue&, T* dst, const A* src, std::int64_t count);
  // One elementwise optimizer step over `count` parameters, so any partition gives the same result;
  // also writes the compute copy if it is not null. Formulas are those of PyTorch's Adam, AdamW and
  // SGD (without dampening); velocity may be null if momentum is 0.
  void (*adam)(Queue&, const AdamStep&, A* master, A* m, A* v, const A* grad, T* compute,
               std::int64_t count);
  void (*sgd)(Queue&, const SgdStep&, A* master, A* velocity, const A* grad, T* compute,
              std::int64_t count);

  // m = beta2 m + (1 - beta2) g, after a step along the sign of beta1 m + (1 - beta1) g.
  void (*lion)(Queue&, const LionStep&, A* master, A* m, const A* grad, T* compute,
               std::int64_t count);
  // m = momentum m + (1 - momentum) g; grad becomes m or, with Nesterov, momentum m + (1 -
  // momentum) g.
  void (*momentum)(Queue&, const MomentumStep&, A* m, A* grad, std::int64_t count);
  // master = (1 - lr weight_decay) master - lr direction, and the compute copy if it is not null.
  void (*apply_direction)(Queue&, const DirectionStep&, A* master, const A* direction, T* compute,
                          std::int64_t count);

  // Newton-Schulz iterations, on whole matrices [rows, cols] in T.
  // y = x / (sqrt(squares) + 1e-7), or its transpose, [cols, rows].
  void (*normalize_matrix)(Queue&, T* y, const A* x, const ExactSum* squares, std::int64_t rows,
                           std::int64_t cols, bool transpose);
  // y = factor x, [rows, cols], where x is [rows, cols] or, with `transpose`, [cols, rows].
  void (*scale_matrix)(Queue&, A* y, const T* x, double factor, std::int64_t rows,
                       std::int64_t cols, bool transpose);
  // y = a y + b x.
  void (*combine)(Queue&, T* y, double a, const T* x, double b, std::int64_t count);

  // Adds the squares of x to an exact sum: blocks of `block` elements, which divides square_block,
  // in double in a fixed order, then without rounding. NaN and infinity propagate to the total;
  // large floats do not overflow.
  void (*add_squares)(Queue&, ExactSum* total, const A* x, std::int64_t count, std::int64_t block);
  // Adds the sum of losses[i] * weights[i] and the sum of weights, each in double and in order.
  // weights may be null: all 1. A loss whose weight is 0 is not read.
  void (*add_losses)(Queue&, ExactSum* total, ExactSum* total_weight, const A* losses,
                     const float* weights, std::int64_t count);
  // Sets index to the position of the first NaN or infinity, or -1.
  void (*first_not_finite)(Queue&, std::int64_t* index, const T* x, std::int64_t count);

  // Attention sinks: a further score of each head, sinks [heads], whose value is zero. ctx and lse
  // of attention without them, with the layouts of attention() or, where the shape has a cut, of
  // context_attention(), become those with them.
  void (*attention_sink)(Queue&, const AttentionShape&, T* ctx, A* lse, const T* sinks);
  // What each row adds to the gradient of the sinks, terms [rows, heads], from ctx and lse with
  // them.
  void (*attention_sink_terms)(Queue&, const AttentionShape&, A* terms, const T* ctx, const A* lse,
                               const T* dctx, const T* sinks);
  // --- linear attention
  // y and x are [rows, channels]. Generation: inputs [batch, width - 1, channels] holds the newest
  // positions and is updated; else null.
  void (*short_conv)(Queue&, const ShortConvShape&, T* y, const T* x, const T* weight,
                     const T* bias, T* inputs);
  void (*short_conv_input_grad)(Queue&, const ShortConvShape&, T* dx, const T* dy, const T* x,
                                const T* weight, const T* bias);
  // Of the rows [first_row, first_row + rows) of dy.
  void (*short_conv_weight_grad)(Queue&, const ShortConvShape&, const ShortConvGradOperands<T>&,
                                 std::int64_t first_row, std::int64_t rows);
  // skip is null without time steps.
  void (*decay_rates)(Queue&, const DecayShape&, A* rates, const T* ba, const T* a_log,
                      const T* dt_bias, const T* skip);
  void (*decay_rates_grad)(Queue&, const DecayShape&, const DecayGradOperands<T>&);
  // Generation: state [batch, heads, key_dim, value_dim] is read and updated; else null. Both
  // kernels take delta_workspace() bytes of scratch (workspace.h).
  void (*delta_rule)(Queue&, const DeltaShape&, T* y, const T* qkv, const A* rates, A* state,
                     void* workspace);
  void (*delta_rule_grad)(Queue&, const DeltaShape&, const DeltaGradOperands<T>&);
  void (*gate_heads)(Queue&, const GateHeadsShape&, T* y, const T* x, const T* gate,
                     const T* weight);
  void (*gate_heads_grad)(Queue&, const GateHeadsShape&, const GateHeadsGradOperands<T>&);

  // Rows of each group: y += bias, and dbias (+)= the sum of dy, rows in order; offsets [groups *
  // blocks + 1].
  void (*add_group_bias)(Queue&, const GroupBiasShape&, T* y, const T* bias,
                         const std::int32_t* offsets);
  void (*group_bias_grad)(Queue&, const GroupBiasShape&, A* dbias, bool accumulate, const T* dy,
                          const std::int32_t* offsets);
};

// Every entry of the table, for code generated per kernel: adapters, records, counters.
// clang-format off
#define TRIREME_KERNELS(X) \
  X(norm) X(norm_grad) X(head_norm) X(head_norm_grad) X(head_sums) X(activation) X(activation_grad) X(add) X(scale) \
  X(soft_cap) X(soft_cap_grad) \
  X(rope) X(attention) X(attention_grad) X(context_attention) X(attention_delta) \
  X(context_attention_grad) X(ring_attention) X(ring_attention_grad) X(ring_key_grads) X(copy_blocks) X(sum_blocks) X(cached_attention) X(embedding) X(embedding_grad) X(softmax_stats) \
  X(cross_entropy_grad) X(classifier) X(softmax_rescale) X(token_loss) X(gather) X(gather_grad) \
  X(router) X(router_input_grad) X(router_weight_grad) X(route) X(route_grad) \
  X(routed_tokens) X(dispatch) \
  X(permute_rows) X(unpermute_rows) X(combine_rows) X(combine_rows_grad) X(gate_rows) \
  X(gate_rows_grad) X(mix_rows) X(mix_rows_grad) X(update_router_bias) X(update_router_load) X(fp8_largest) X(fp8_round) \
  X(fp8_round_stored) X(fp8_bytes) X(fp8_inverse_scales) X(store_sums) X(bias_grad) X(cast_from_master) X(adam) X(sgd) X(lion) X(momentum) \
  X(apply_direction) X(normalize_matrix) X(scale_matrix) X(combine) X(add_squares) X(add_losses) \
  X(first_not_finite) X(attention_sink) X(attention_sink_terms) X(short_conv) \
  X(short_conv_input_grad) X(short_conv_weight_grad) X(decay_rates) X(decay_rates_grad) X(delta_rule) \
  X(delta_rule_grad) X(gate_heads) X(gate_heads_grad) X(add_group_bias) X(group_bias_grad)
// clang-format on
#define TRIREME_COUNT(entry) +1
static_assert(sizeof(Kernels<float>) / sizeof(void (*)()) == TRIREME_KERNELS(TRIREME_COUNT),
              "the list and the table of kernels differ");
#undef TRIREME_COUNT

}  // namespace trireme
