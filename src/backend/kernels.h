// The kernels of a device: raw pointers into its memory and sizes in, results out; nothing else is
// known here. A device has one table for each storage type, and one of the kernels that know no
// storage type (state_kernels.h).
//
// Every kernel takes the queue first: it is enqueued and the call returns, or on the CPU it has run
// by then. T is the storage type of activations and compute weights: float, bf16, f16 or double.
// Acc<T> is the type of arithmetic, statistics and gradients of weights: double for double, else
// float. Tensors are row-major; `rows` counts tokens. Kernels cut work by the problem's size only
// and reduce in a fixed order, so that results are the same every time. They never allocate: those
// that need scratch state its size next to them. What changes from step to step they read from a
// StepBlock in the device's memory. Where `accumulate` is given, false overwrites the destination
// and true adds to it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backend/shapes.h"
#include "backend/step_block.h"
#include "base/dtype.h"

namespace trireme {

class ExactSum;
class Queue;

template <class T>
using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Steps of the optimizer. All scalars are double because 1 - beta2 would lose four digits in
// float. What changes from step to step comes from the block: learning rate, update_scale and bias
// corrections.
struct AdamStep {
  const StepBlock* block;
  double beta1, beta2, eps, weight_decay;
  bool decoupled;  // true: AdamW; false: weight decay joins the gradient
};

// The same for SGD with momentum.
struct SgdStep {
  const StepBlock* block;
  double momentum, weight_decay;
};

// Lion (Chen et al. 2023), with decoupled weight decay.
struct LionStep {
  const StepBlock* block;
  double beta1, beta2, weight_decay;
};

// The two elementwise parts of Muon (Jordan et al. 2024): the direction before it is made
// orthogonal, and the step along it, whose learning rate is lr_ratio times the block's.
struct MomentumStep {
  const StepBlock* block;
  double momentum;
  bool nesterov;
};
struct DirectionStep {
  const StepBlock* block;
  double lr_ratio, weight_decay;
};

// Operands of kernels that have many of them; call sites name each.

template <class T>
struct NormGradOperands {
  T* dx;
  Acc<T>*dweight, *dbias;  // dbias may be null
  bool accumulate;
  const T *dy, *x;  // x: what was normalized
  const Acc<T>*mean, *rstd;
  const T* weight;
  const T* dres;      // may be null, and may be dx
  Acc<T>* workspace;  // norm_grad_workspace(rows, cols) elements
};

template <class T>
struct HeadNormGradOperands {
  T* dx;  // neither dy nor x
  Acc<T>*dquery_weight, *dkey_weight;
  bool accumulate;
  const T *dy, *x;  // x: what was normalized
  const Acc<T>* rstd;
  const T *query_weight, *key_weight;
  const Acc<T>* sums;  // as of head_norm, of dy
  Acc<T>* workspace;   // norm_grad_workspace(rows, query_weights()) elements
};

// All tables but the first may be null.
template <class T>
struct EmbeddingOperands {
  T* y;
  const std::int32_t* ids;
  const T* table;
  const T* position_table;
  const std::int32_t* positions;  // null: r % seq
  const T* type_table;
  const std::int32_t* types;
  std::int64_t rows, cols, seq;
  std::int64_t first_id, local_ids;
};

template <class T>
struct RouteGradOperands {
  Acc<T>* dlogits;
  Acc<T>*dbias, *dload;  // may be null
  bool accumulate;
  const Acc<T>*dweights, *logits;
  const std::int32_t *chosen, *places;
  const std::int64_t* counts;
  const T* load;
  const StepBlock* block;
  std::int32_t layer;
};

template <class T>
struct CombineGradOperands {
  T* dx;
  Acc<T>* dweights;
  const T *dy, *x;
  const Acc<T>* weights;
  const std::int32_t *places, *offsets;
};

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

  // Queries and keys, head by head: y = x / rms(x) * weight, with one weight [head_dim] for all
  // queries and one for all keys; values are copied. rstd is [rows, norms()] in the order of the
  // heads and may be null where no gradient is wanted. y is not x. With all_heads rms(x) is that of
  // all query heads, or of all key heads, of the row, and the weights have their widths; where
  // ranks share the heads, sums are those of head_sums over all ranks, otherwise null.
  void (*head_norm)(Queue&, const HeadNormShape&, T* y, A* rstd, const T* x, const T* query_weight,
                    const T* key_weight, const A* sums);
  void (*head_norm_grad)(Queue&, const HeadNormShape&, const HeadNormGradOperands<T>&);
  // With all_heads: sums [rows, 2] over the queries and over the keys here of x^2 or, where dy is
  // given (otherwise it and the weights are null), of x dy weight. Keys that this rank does not
  // own count in the second only, whose dy differs from rank to rank.
  void (*head_sums)(Queue&, const HeadNormShape&, A* sums, const T* x, const T* dy,
                    const T* query_weight, const T* key_weight);

  // y = activation(x): x is [rows, cols], or [rows, 2 * cols] = gate | up for gated kinds. But
  // for these, y may be x and dx may be dy or x.
  void (*activation)(Queue&, const ActivationRule&, T* y, const T* x, std::int64_t rows,
                     std::int64_t cols);
  void (*activation_grad)(Queue&, const ActivationRule&, T* dx, const T* dy, const T* x,
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

  // ctx and the log-sum-exp of each query, lse [batch, heads, seq]. Never holds seq x seq. Both
  // take attention_workspace() of workspace.h in bytes.
  void (*attention)(Queue&, const AttentionShape&, T* ctx, A* lse, const T* qkv, void* workspace);
  void (*attention_grad)(Queue&, const AttentionShape&, T* dqkv, const T* dctx, const T* qkv,
                         const T* ctx, const A* lse, void* workspace);

  // Context parallelism (shape.cut): causal attention of a rank's two chunks to the keys and values
  // of whole sequences, bit for bit what attention() gives these queries. qkv: the rank's
  // [batch * 2 * chunk, ...]; kv: [batch * seq, groups * 2 * head_dim], a key and its value in each
  // group of columns; lse: [batch, groups, 2, queries_per_group, chunk].
  void (*context_attention)(Queue&, const AttentionShape&, T* ctx, A* lse, const T* qkv,
                            const T* kv);
  // delta, like lse: the products of ctx and dctx, row by row.
  void (*attention_delta)(Queue&, const AttentionShape&, A* delta, const T* ctx, const T* dctx);
  // The gradient of the rank's queries, and that of its keys and values from the queries of all
  // ranks: dqkv is the rank's, all else is of whole sequences: qkv [batch * seq, ...],
  // dctx [batch * seq, ...], lse and delta [batch, heads, seq].
  void (*context_attention_grad)(Queue&, const AttentionShape&, T* dqkv, const T* qkv,
                                 const T* dctx, const A* lse, const A* delta, void* workspace);
  // A turn of a ring: the rank's two chunks of queries against the keys and values of the rank that
  // has the chunks `keys`, kv [batch * 2 * chunk, groups * 2 * head_dim]. `first`: of the rank's
  // own, which come first; later turns add to sums [batch * 2 * chunk, ctx columns] and lse, as
  // above. ctx is null but in the last turn.
  void (*ring_attention)(Queue&, const AttentionShape&, const SequenceCut& keys, bool first, T* ctx,
                         A* sums, A* lse, const T* qkv, const T* kv);
  // The same backwards: adds to dkv, like kv, and to the gradient of the queries in the workspace;
  // dqkv, of which it writes the queries' columns, is null but in the last turn.
  void (*ring_attention_grad)(Queue&, const AttentionShape&, const SequenceCut& keys, bool first,
                              T* dqkv, A* dkv, const T* qkv, const T* kv, const T* dctx,
                              const A* lse, const A* delta, void* workspace);
  // Writes the other columns: the sum of two dkv.
  void (*ring_key_grads)(Queue&, const AttentionShape&, T* dqkv, const A* own, const A* arrived);
  void (*copy_blocks)(Queue&, T* dst, const T* src, const BlockCopy&);
  // The same, but blocks that differ in k alone are added up, in that order: dst_strides[2] is not
  // read.
  void (*sum_blocks)(Queue&, T* dst, const T* src, const BlockCopy&);

  // Appends the keys and values of qkv [batch * seq, ...] to the caches at positions
  // lengths[b] .. lengths[b] + seq, then attends causally. lengths is [batch]; lse [batch, heads,
  // seq] may be null. workspace: what ops plan for it.
  void (*cached_attention)(Queue&, const CachedAttentionShape&, T* ctx, A* lse, const T* qkv,
                           T* key_cache, T* value_cache, const std::int32_t* lengths, A* workspace);

  // y = table[ids[r]] + position_table[position] (+ type_table[types[r]]). Ids outside [first_id,
  // first_id + local_ids) give rows of zeros, positions and types left out too: they belong to
  // another rank, and the sum over ranks is then the whole.
  void (*embedding)(Queue&, const EmbeddingOperands<T>&);
  // dtable[ids[r] - first_id] += dy[r], rows of equal id summed in row order. With accumulate false
  // all local_ids rows are overwritten (zero where no id came). workspace:
  // embedding_grad_workspace.
  void (*embedding_grad)(Queue&, A* dtable, bool accumulate, const std::int32_t* ids, const T* dy,
                         std::int64_t rows, std::int64_t cols, std::int64_t first_id,
                         std::int64_t local_ids, std::int32_t* workspace);

  // Per row: the largest logit, the sum of exp(logit - largest), and the target's logit (0 if the
  // target lies outside [first_id, first_id + vocab)). Columns from vocab to ld are padding.
  void (*softmax_stats)(Queue&, A* largest, A* sum, A* target_logit, const T* logits,
                        const std::int32_t* targets, std::int64_t rows, std::int64_t vocab,
                        std::int64_t ld, std::int64_t first_id);
  // logits <- (exp(logits - lse) - onehot(target)) * weights[r] * the step's grad_scale, in place;
  // padding <- 0. Without weights (null) each row is the loss of a sample: the step's sample_scale.
  void (*cross_entropy_grad)(Queue&, T* logits, const A* lse, const std::int32_t* targets,
                             const float* weights, const StepBlock* block, std::int64_t rows,
                             std::int64_t vocab, std::int64_t ld, std::int64_t first_id);

  // softmax_stats, token_loss and cross_entropy_grad in one, bit for bit: a row is still near when
  // its gradient is written.
  void (*classifier)(Queue&, T* logits, A* loss, const std::int32_t* targets, const float* weights,
                     const StepBlock* block, std::int64_t rows, std::int64_t vocab, std::int64_t ld,
                     std::int64_t first_id);

  // Ranks that share a vocabulary: sums[r] = the local sum of exponentials brought to the largest
  // logit of all ranks, sums[rows + r] = the target's logit; both are then summed over the ranks.
  void (*softmax_rescale)(Queue&, A* sums, const A* sum, const A* target_logit,
                          const A* local_largest, const A* largest, std::int64_t rows);
  // lse = largest + log(sum); loss = lse - target_logit.
  void (*token_loss)(Queue&, A* loss, A* lse, const A* largest, const A* sum, const A* target_logit,
                     std::int64_t rows);

  // y[i] = x[numbers[i]], for i below `taken`; numbers lie in [0, source_rows).
  void (*gather)(Queue&, T* y, const T* x, const std::int32_t* numbers, std::int64_t taken,
                 std::int64_t columns, std::int64_t source_rows);
  // dx[numbers[i]] = the sum of those dy[i], in order of i; all other rows are zero.
  void (*gather_grad)(Queue&, T* dx, const T* dy, const std::int32_t* numbers, std::int64_t taken,
                      std::int64_t columns, std::int64_t source_rows);

  // Moves biases towards an even load, by the choices of each expert as route_grad counts them:
  // master += rate * sign(mean - choices), and stores them in the compute type, unless compute is
  // null.
  void (*update_router_bias)(Queue&, A* master, T* compute, const A* choices, double rate,
                             std::int64_t experts);
  // Keeps the load itself, over its mean, in the same way: master = choices / mean.
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
  // weights, chosen: [rows, top_k], the experts of a row rising. bias [experts] may be null: it is
  // added to the scores that choose, and to none that weighs.
  void (*route)(Queue&, const RouterShape&, A* weights, std::int32_t* chosen, const A* logits,
                const T* bias);
  // dlogits of the weights' gradient and of the losses. Adds the losses, the choices and the drops
  // to the step's totals of experts, where there are such, as layer `layer`. dbias may be null; it
  // (+)= the kept choices of each expert times the loss scale times choice_unit. counts [units,
  // experts]: the choices by plain score of whole units; null where all of their rows are here.
  // load [experts] may be null: how often each expert was chosen in the step before, over the mean,
  // which the balance loss then takes instead of the choices of its unit; dload (+)= this step's
  // choices by plain score, like dbias.
  void (*route_grad)(Queue&, const RouterShape&, const RouterLosses&, const RouteGradOperands<T>&);
  // What these rows add to the counts above, of `units` units. plain: `chosen` is by plain score.
  void (*routed_tokens)(Queue&, const RouterShape&, const RouterLosses&, std::int64_t units,
                        bool plain, std::int64_t* counts, const A* logits,
                        const std::int32_t* chosen);
  // places, and the first row of each expert and, within it, of each block of rows: offsets
  // [experts * blocks + 1]. workspace: rows * top_k elements, with a capacity only.
  void (*dispatch)(Queue&, const DispatchShape&, std::int32_t* places, std::int32_t* offsets,
                   const std::int32_t* chosen, const A* weights, std::int32_t* workspace);
  // y[places[r][j]] = x[r]; rows of y from offsets[experts] on are zero. y: [taken, cols].
  void (*permute_rows)(Queue&, const PermuteShape&, T* y, const T* x, const std::int32_t* places,
                       const std::int32_t* offsets);
  // y[r] = the sum over j of x[places[r][j]], in order of j.
  void (*unpermute_rows)(Queue&, T* y, const T* x, const std::int32_t* places, std::int64_t rows,
                         std::int64_t cols, std::int64_t top_k);
  // y[r] = the sum over j of weights[r][j] * x[places[r][j]], in order of j.
  void (*combine_rows)(Queue&, T* y, const T* x, const A* weights, const std::int32_t* places,
                       std::int64_t rows, std::int64_t cols, std::int64_t top_k);
  // dx[places[r][j]] = weights[r][j] * dy[r], zero from offsets[experts] on; dweights[r][j] =
  // dy[r] . x[places[r][j]], zero where it was dropped.
  void (*combine_rows_grad)(Queue&, const PermuteShape&, const CombineGradOperands<T>&);
  // y[r] = sigmoid(gates[r]) * x[r], and its gradients; y may be x.
  void (*gate_rows)(Queue&, T* y, const T* x, const A* gates, std::int64_t rows, std::int64_t cols);
  void (*gate_rows_grad)(Queue&, T* dx, A* dgates, const T* dy, const T* x, const A* gates,
                         std::int64_t rows, std::int64_t cols);
  // y[r] = c0 a[r] + c1 b[r], where c0 and c1 are the softmax of the row's two logits, [rows, 2];
  // y may be a or b. And its gradients.
  void (*mix_rows)(Queue&, T* y, const T* a, const T* b, const T* logits, std::int64_t rows,
                   std::int64_t cols);
  void (*mix_rows_grad)(Queue&, T* da, T* db, T* dlogits, const T* dy, const T* a, const T* b,
                        const T* logits, std::int64_t rows, std::int64_t cols);

  // largest [tiles.count()]: the largest magnitude in each tile, as a float; NaN counts as nothing.
  // Zero for tiles of bands that are left over.
  void (*fp8_largest)(Queue&, const Fp8Tiles&, float* largest, const T* x);
  // y = x as it is after rounding to fp8: with s = fp8_scale(largest), float(x) * s is rounded, and
  // multiplied by 1 / s, both in float. What is not finite becomes NaN.
  void (*fp8_round)(Queue&, const Fp8Tiles&, const float* largest, A* y, const T* x);
  // The same, stored as T, which rounds nothing where T is bf16 and scales are powers of two.
  void (*fp8_round_stored)(Queue&, const Fp8Tiles&, const float* largest, T* y, const T* x);
  // The bytes of these numbers before they are multiplied by 1 / s. There are no groups. With
  // `chunk` > 0, a multiple of 4 that divides the rows, every `chunk` rows are transposed: y is
  // [rows / chunk, cols, chunk].
  void (*fp8_bytes)(Queue&, const Fp8Tiles&, const float* largest, std::uint8_t* y, const T* x,
                    std::int64_t chunk);
  // 1 / s of each tile, in float, for what multiplies bytes. y is [bands(), ld], of which a row has
  // tiles_of_row() numbers; or with `chunk` > 0, which divides the bands, [bands() / chunk,
  // tiles_of_row(), ld], where a row has `chunk` numbers. What is left of a row becomes 0.
  void (*fp8_inverse_scales)(Queue&, const Fp8Tiles&, const float* largest, float* y,
                             std::int64_t chunk, std::int64_t ld);
  // y = x + bias, row by row; bias may be null.
  void (*store_sums)(Queue&, T* y, const A* x, const T* bias, std::int64_t rows, std::int64_t cols);

  // dbias[c] (+)= sum over rows of dy[r][c], rows in fixed order. workspace: bias_grad_workspace.
  void (*bias_grad)(Queue&, A* dbias, bool accumulate, const T* dy, std::int64_t rows,
                    std::int64_t cols, A* workspace);

  // Stores master weights in the compute type.
  void (*cast_from_master)(Queue&, T* dst, const A* src, std::int64_t count);
  // One optimizer step over `count` parameters, elementwise, so that any cut gives the same; writes
  // the compute copy too if it is not null. Formulas as in PyTorch's Adam, AdamW and SGD (without
  // dampening); velocity may be null if momentum is 0.
  void (*adam)(Queue&, const AdamStep&, A* master, A* m, A* v, const A* grad, T* compute,
               std::int64_t count);
  void (*sgd)(Queue&, const SgdStep&, A* master, A* velocity, const A* grad, T* compute,
              std::int64_t count);

  // m = beta2 m + (1 - beta2) g, after a step by the sign of beta1 m + (1 - beta1) g.
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

  // Adds the squares of x to an exact sum: each block of 256 in double, in a fixed order, then
  // without rounding. NaN and infinity show in the total, large floats do not overflow.
  void (*add_squares)(Queue&, ExactSum* total, const A* x, std::int64_t count);
  // Adds the sum of losses[i] * weights[i] and the sum of weights, each in double and in order.
  // weights may be null: all 1. A loss whose weight is 0 is not read.
  void (*add_losses)(Queue&, ExactSum* total, ExactSum* total_weight, const A* losses,
                     const float* weights, std::int64_t count);
  // index gets that of the first NaN or infinity, or -1.
  void (*first_not_finite)(Queue&, std::int64_t* index, const T* x, std::int64_t count);

  // Attention sinks: a further score of each head, sinks [heads], whose value is zero. ctx and lse
  // of attention without them, with the layouts of attention() or, where the shape has a cut, of
  // context_attention(), become those with them.
  void (*attention_sink)(Queue&, const AttentionShape&, T* ctx, A* lse, const T* sinks);
  // What each row adds to the gradient of the sinks, terms [rows, heads], from ctx and lse with
  // them.
  void (*attention_sink_terms)(Queue&, const AttentionShape&, A* terms, const T* ctx, const A* lse,
                               const T* dctx, const T* sinks);
  // Rows of each group: y += bias, and dbias (+)= the sum of dy, rows in order; offsets [groups *
  // blocks + 1].
  void (*add_group_bias)(Queue&, const GroupBiasShape&, T* y, const T* bias,
                         const std::int32_t* offsets);
  void (*group_bias_grad)(Queue&, const GroupBiasShape&, A* dbias, bool accumulate, const T* dy,
                          const std::int32_t* offsets);
};

// Every entry of the table, for what is made for each: adapters, records, counters.
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
  X(first_not_finite) X(attention_sink) X(attention_sink_terms) X(add_group_bias) X(group_bias_grad)
// clang-format on
#define TRIREME_COUNT(entry) +1
static_assert(sizeof(Kernels<float>) / sizeof(void (*)()) == TRIREME_KERNELS(TRIREME_COUNT),
              "the list and the table of kernels differ");
#undef TRIREME_COUNT

}  // namespace trireme
