// Sizes and rules of kernels, each defined once. Graph attributes, kernel arguments and the
// kernels' internal views all contain these structs, so a new member reaches all of them. They are
// plain data, passed to GPUs by value.
#pragma once

#include <cstdint>

#include "base/fp8.h"
#include "base/kinds.h"

namespace trireme {

struct StepBlock;

// Static properties of a dropout site. probability 0 switches it off.
struct DropoutRule {
  float probability = 0;
  std::uint32_t site = 0;      // unique within the model; in a graph, within its layer
  std::int64_t first_row = 0;  // of the [batch, seq] rows (sequence parallelism)
  SequenceCut cut = {};        // of the seq positions (context parallelism)
};

// Decides which elements a dropout site drops: a pure function of (seed, step, sample, position,
// site, column), independent of the parallel layout. The keep probability is rounded to a multiple
// of 2^-16, and kept values are divided by exactly that. Row r is position (first_row + r) %
// seq_length of sample_ids[(first_row + r) / seq_length], so any block of the [batch, seq] rows
// draws the same bits as the whole.
struct Dropout : DropoutRule {
  const StepBlock* block = nullptr;          // seed and step; read when the kernel runs
  const std::int64_t* sample_ids = nullptr;  // [batch] global sample numbers
  std::int64_t seq_length = 0;
  std::int64_t first_column = 0;  // offset of column 0 in the whole layer (tensor parallelism)
};

// An activation. In a gated one of gate and up, swiglu is gate x sigmoid(gate_alpha x gate) times
// (up + gate_offset); with a clamp the gate is at most that, and up lies within +- it.
struct ActivationRule {
  ActivationKind kind;
  double gate_alpha = 1, gate_offset = 0, clamp = 0;  // clamp 0: none

  constexpr ActivationRule(ActivationKind k) : kind(k) {}
  // Whether it has one of these.
  constexpr bool is_adjusted() const { return gate_alpha != 1 || gate_offset != 0 || clamp > 0; }
};

struct NormRule {
  NormKind kind;
  double eps;
  bool zero_centered = false;  // multiplies by 1 + weight
};
struct NormShape : NormRule {
  std::int64_t rows, cols;
};

// RMSNorm of the queries and keys of a qkv buffer (layout below), per head or
// over all heads of a row.
struct HeadNormRule {
  std::int64_t groups, queries_per_group, head_dim;
  double eps;
  bool all_heads = false;  // one norm over all query heads and one over all key heads of a row
  // With heads split by tensor parallelism: the global numbers of heads (0: the local ones), and
  // whether this rank owns its key heads, which may be replicated on other ranks.
  std::int64_t all_queries = 0, all_keys = 0;
  bool counts_keys = true;
  bool zero_centered = false;  // multiplies by 1 + weight

  std::int64_t qkv_cols() const { return groups * (queries_per_group + 2) * head_dim; }
  std::int64_t normed_heads() const { return groups * (queries_per_group + 1); }
  // Number of norms per row, and of elements of their weights.
  std::int64_t norms() const { return all_heads ? 2 : normed_heads(); }
  std::int64_t query_weights() const {
    return all_heads ? groups * queries_per_group * head_dim : head_dim;
  }
  std::int64_t key_weights() const { return all_heads ? groups * head_dim : head_dim; }
  // Number of heads that an all-heads norm averages over.
  std::int64_t heads_together(bool keys) const {
    const std::int64_t together = keys ? all_keys : all_queries;
    return together > 0 ? together : groups * (keys ? 1 : queries_per_group);
  }
};
struct HeadNormShape : HeadNormRule {
  std::int64_t rows;
};

// Static properties of an attention; new attributes of attention are added here. qkv is [batch *
// seq, groups * (queries_per_group + 2) * head_dim], where each column group holds its queries,
// then its key, then its value (Megatron's order). ctx is [batch * seq, groups *
// queries_per_group * head_dim].
struct AttentionRule {
  std::int64_t batch, seq, groups, queries_per_group, head_dim;
  bool causal;
  double scale;                 // usually 1 / sqrt(head_dim)
  std::int64_t first_head = 0;  // offset of head 0 in the whole layer, for dropout and ALiBi
  // Context parallelism: seq is the whole sequence's length; a rank has 2 * cut.chunk of it.
  SequenceCut cut = {};
  // ALiBi (Press et al. 2022): number of heads of the whole layer; 0: off. Adds slope x (key -
  // query) to the scores, with the head's slope.
  std::int64_t alibi_heads = 0;
  // Logit soft-capping (Gemma 2): scores s become soft_cap x tanh(s / soft_cap). 0: off. Not
  // supported together with ALiBi on GPUs.
  double soft_cap = 0;
  // Sliding window: number of latest positions visible to a query, itself included. 0: all.
  std::int64_t window = 0;
  // Instead, a query sees the positions of its own chunk of `window` up to itself.
  bool chunks = false;

  std::int64_t heads() const { return groups * queries_per_group; }
  std::int64_t qkv_cols() const { return groups * (queries_per_group + 2) * head_dim; }
  std::int64_t ctx_cols() const { return heads() * head_dim; }
};

// Attention over whole sequences. A sliding window is already part of first_visible.
struct AttentionShape : AttentionRule {
  // Optional [batch * seq]: first position visible to each query (documents packed into one sample,
  // windows); null means 0. Positions count within the sample.
  const std::int32_t* first_visible = nullptr;
  // Optional [batch]: number of real positions of each sample (the padding after them is
  // never read); null means seq.
  const std::int32_t* lengths = nullptr;
  Dropout dropout;  // on attention probabilities
  // If given: raises this block's largest_scores of layer `layer`.
  const StepBlock* scores = nullptr;
  std::int32_t layer = 0;
};

// Causal attention of seq new positions per sequence against a cache, for generation: caches are
// [batch, capacity, groups, head_dim].
struct CachedAttentionShape : AttentionRule {
  std::int64_t capacity;
};

// Linear attention. Its rows are positions [batch, seq] of sequences, each computed from the
// positions before it.
struct SequenceRule {
  std::int64_t batch, seq;
};
// What its kernels know at run time about the positions; all may be null.
struct SequencePlaces {
  // [batch * seq]: first position of each position's document, as in attention.
  const std::int32_t* first_visible = nullptr;
  // Generation, [batch]: the number of positions before these, which a state summarizes, and of
  // these positions that are not padding; later ones are neither read nor written.
  const std::int32_t* lengths = nullptr;
  const std::int32_t* new_tokens = nullptr;
};

// Causal convolution of each channel over the newest `width` positions, followed by SiLU. weight is
// [channels, width], the newest position last; the bias [channels] may be absent.
struct ShortConvRule : SequenceRule {
  std::int64_t channels, width;
};
struct ShortConvShape : ShortConvRule {
  SequencePlaces places;
};

// Per row and head: the logarithm of the decay, -exp(a_log) softplus(a + dt_bias), and the rate of
// writing, sigmoid(b). ba is [rows, groups * 2 * per_group], each group holding its b, then its a;
// rates are [rows, 2, heads]. With time steps (Mamba-2) there is no b: ba is [rows, heads], the
// rate of writing is the softplus, and the head's skip is its third number.
struct DecayRule {
  std::int64_t groups, per_group;
  bool time_steps = false;

  std::int64_t heads() const { return groups * per_group; }
  std::int64_t ba_cols() const { return (time_steps ? 1 : 2) * heads(); }
  std::int64_t rate_cols() const { return (time_steps ? 3 : 2) * heads(); }
};
struct DecayShape : DecayRule {
  std::int64_t rows;
};

// Gated delta rule (Yang et al. 2024, arXiv:2412.06464): a head's state [key_dim, value_dim]
// decays, what it returns for the key moves toward the value, and it answers the query. qkv is
// [rows, groups * (2 * key_dim + per_group * value_dim)], each group holding its query, its key and
// its values; queries and keys are normalized to length 1, and queries divided by sqrt(key_dim). y
// is [rows, heads * value_dim].
//
// As the state space of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060), the state only decays and gets
// the product of key and value, times the rate; queries and keys are as they are; and y has the
// value times the head's skip in addition.
struct DeltaRule : SequenceRule {
  std::int64_t groups, per_group, key_dim, value_dim;
  bool state_space = false;

  std::int64_t rate_cols() const { return (state_space ? 3 : 2) * heads(); }
  std::int64_t heads() const { return groups * per_group; }
  std::int64_t group_cols() const { return 2 * key_dim + per_group * value_dim; }
  std::int64_t qkv_cols() const { return groups * group_cols(); }
  std::int64_t y_cols() const { return heads() * value_dim; }
};
struct DeltaShape : DeltaRule {
  SequencePlaces places;
};

// Gates of heads: y = norm(x) * activation(gate), [rows, heads * head_dim], where the norm is an
// RMSNorm of each head with one weight [head_dim] for all, or absent. With gates first (Mamba-2): y
// = norm(x * activation(gate)), and the weight is [heads * head_dim].
struct GateHeadsRule {
  std::int64_t head_dim;
  bool silu = false;  // the activation; false: sigmoid
  bool norm = false;
  double eps = 0;  // of the norm
  bool gates_first = false;

  std::int64_t weights(std::int64_t heads) const {
    return gates_first ? heads * head_dim : head_dim;
  }
};
struct GateHeadsShape : GateHeadsRule {
  std::int64_t rows, heads;
  std::int64_t stride;  // elements from one row to the next, of all heads
};

// Selects the top_k experts of each row by the scores of its logits: the softmax over all experts,
// or the sigmoid of each. Ties go to the expert with the lower number.
struct RouterRule {
  std::int64_t top_k;
  bool sigmoid;
  // Softmax: the weights are the softmax over the chosen experts only. Sigmoid: scores over their
  // sum (+ 1e-20) if top_k > 1. Otherwise the scores themselves. All are multiplied by `scaling`.
  bool normalize;
  double scaling;
  // Group-limited routing: only experts of the top_groups of `groups` with the largest sums of
  // their best top_k / top_groups scores (DeepSeek-AI 2024, arXiv 2412.19437).
  std::int64_t groups, top_groups;
};
struct RouterShape : RouterRule {
  std::int64_t rows, experts;
};

// Unit of counts of choices in gradients: the integers of exact numerics have room for that many of
// them, and every count up to 2^24 is exact in a float.
inline constexpr double choice_unit = 0x1p-20;

// Router losses that enter the gradient. Per unit of `unit_rows` rows (a sequence, or the
// micro-batch), with p the scores over their sum and f_e the share of expert e in the top_k x
// unit_rows choices by plain score: aux_coeff * experts * sum_e f_e mean(p_e) (Fedus et al. 2021),
// and z_coeff * mean(log-sum-exp(logits)^2) (Zoph et al. 2022). A unit is weighted in the gradient
// by its number of sequences (StepBlock::sample_scale for each).
struct RouterLosses {
  double aux_coeff, z_coeff;
  std::int64_t unit_rows, seq;
  // When ranks share units: row 0 is row first_row among the rows of this rank's units on the
  // ranks that split these sequences, unit_rows per unit; over all ranks a unit has
  // whole_rows rows (0: unit_rows).
  std::int64_t first_row = 0, whole_rows = 0;
  // Number of rows whose losses are summed at a time (0: all local rows of a unit).
  std::int64_t block_rows = 0;

  double rows() const { return static_cast<double>(whole_rows > 0 ? whole_rows : unit_rows); }
};

// Order of rows by expert. An expert keeps at most `capacity` choices per
// `unit_rows` rows (0: all).
struct DispatchRule {
  std::int64_t experts;
  std::int64_t capacity, unit_rows;
  bool by_weight;  // keep the largest weights, the earlier of equal ones; false: the earliest
  std::int64_t blocks = 1;  // equal blocks of rows, separate in the offsets
};
// The rows * top_k choices sorted by expert and, within an expert, by row.
struct DispatchShape : DispatchRule {
  std::int64_t rows, top_k;
};

// Rows [rows, cols] and their copies in expert order, [taken, cols].
struct PermuteShape {
  std::int64_t rows, cols, taken, top_k, experts;
};

// A matrix divided into tiles that are rounded to fp8 with one scale each. Rows form runs
// (sequences, or the rows of an expert), which tiles do not cross; the last tiles of a run and
// of a row may be smaller.
struct Fp8Tiles {
  std::int64_t rows, cols;
  std::int64_t run;  // divides rows
  std::int64_t tile_rows, tile_cols;
  Fp8Type type;
  bool power_of_2_scales;
  // Alternative to `run`: `groups` runs of any length, the rows [offsets[g], offsets[g + 1]). Rows
  // outside all groups are neither read nor written.
  const std::int32_t* offsets = nullptr;
  std::int64_t groups = 0;

  constexpr std::int64_t tiles_of_row() const { return (cols + tile_cols - 1) / tile_cols; }
  // Bands (rows of tiles) per run and in total, and the band of a row.
  constexpr std::int64_t bands_of_run() const { return (run + tile_rows - 1) / tile_rows; }
  constexpr std::int64_t bands() const {
    return groups > 0 ? rows / tile_rows + groups : rows / run * bands_of_run();
  }
  // First band of a group, computable for any group lengths; some bands
  // between groups may be unused.
  constexpr std::int64_t first_band(std::int64_t group) const {
    return offsets[group] / tile_rows + group;
  }
  constexpr std::int64_t band_of(std::int64_t row) const {
    return row / run * bands_of_run() + row % run / tile_rows;
  }
  constexpr std::int64_t count() const { return bands() * tiles_of_row(); }
};

// The three products of a linear layer: x is [rows, in], weight [out, in] and y [rows, out].
enum class Product : std::uint8_t {
  forward,      // y = x weight^T + bias
  input_grad,   // dx = dy weight
  weight_grad,  // dweight (+)= dy^T x, in Acc<T>
};

struct LinearShape {
  std::int64_t rows, in, out;
};

// Grouped products, one weight per group: weight is [groups * out, in], and the rows
// [offsets[g], offsets[g + 1]) belong to group g. The last of `rows` may belong to no group.
// With blocks, the rows of each group form `blocks` consecutive products, and offsets has
// groups * blocks + 1 entries.
struct GroupedShape {
  std::int64_t rows, in, out, groups;
  std::int64_t blocks = 1;
};

// Rows [rows, cols] of several groups, as above, each of which has a bias of its own: that of group
// g is [g * stride, g * stride + cols).
struct GroupBiasShape {
  std::int64_t rows, cols, groups, stride;
  std::int64_t blocks = 1;
};

}  // namespace trireme
