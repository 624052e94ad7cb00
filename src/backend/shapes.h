// Sizes and rules of kernels: each is stated here once. Attributes of graphs, arguments of kernels
// and the kernels' own views contain these structs, so that a new member reaches all of them.
// GPUs receive them as they are: plain data.
#pragma once

#include <cstdint>

#include "base/fp8.h"
#include "base/kinds.h"

namespace trireme {

struct StepBlock;

// What is known of a dropout site before it runs. probability 0 switches it off.
struct DropoutRule {
  float probability = 0;
  std::uint32_t site = 0;      // unique per place in the model: in a graph, within its layer
  std::int64_t first_row = 0;  // of the [batch, seq] rows (sequence parallelism)
  SequenceCut cut = {};        // of the seq positions (context parallelism)
};

// Which elements a dropout site drops: a pure function of (seed, step, sample, position, site,
// column), never of the layout. The probability of keeping is rounded to a multiple of 2^-16, and
// what is kept is divided by exactly that. Row r is position (first_row + r) % seq_length of
// sample_ids[(first_row + r) / seq_length], so that any block of the [batch, seq] rows draws what
// the whole would.
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

// Norms of the queries and keys of a qkv buffer as below, each head by itself, or all heads of a
// row together (RMSNorm).
struct HeadNormRule {
  std::int64_t groups, queries_per_group, head_dim;
  double eps;
  bool all_heads = false;  // one norm over all query heads and one over all key heads of a row
  // Where tensor-parallel ranks share these heads: the global numbers of heads (0: those here), and
  // whether this rank owns its key heads, of which others may have copies.
  std::int64_t all_queries = 0, all_keys = 0;
  bool counts_keys = true;
  bool zero_centered = false;  // multiplies by 1 + weight

  std::int64_t qkv_cols() const { return groups * (queries_per_group + 2) * head_dim; }
  std::int64_t normed_heads() const { return groups * (queries_per_group + 1); }
  // Norms of a row, and elements of their weights.
  std::int64_t norms() const { return all_heads ? 2 : normed_heads(); }
  std::int64_t query_weights() const {
    return all_heads ? groups * queries_per_group * head_dim : head_dim;
  }
  std::int64_t key_weights() const { return all_heads ? groups * head_dim : head_dim; }
  // Heads that a norm over all heads is the mean of.
  std::int64_t heads_together(bool keys) const {
    const std::int64_t together = keys ? all_keys : all_queries;
    return together > 0 ? together : groups * (keys ? 1 : queries_per_group);
  }
};
struct HeadNormShape : HeadNormRule {
  std::int64_t rows;
};

// What is known of an attention before it runs; a new attribute of attention is a member here. qkv
// is [batch * seq, groups * (queries_per_group + 2) * head_dim], where each group of columns holds
// its queries, then its key, then its value (Megatron's order). ctx is [batch * seq, groups *
// queries_per_group * head_dim].
struct AttentionRule {
  std::int64_t batch, seq, groups, queries_per_group, head_dim;
  bool causal;
  double scale;                 // usually 1 / sqrt(head_dim)
  std::int64_t first_head = 0;  // offset of head 0 in the whole layer, for dropout and ALiBi
  // Context parallelism: seq is that of the whole sequence, of which a rank has 2 * cut.chunk.
  SequenceCut cut = {};
  // ALiBi (Press et al. 2022): heads of the whole layer; 0: off. Scores get slope x (key - query),
  // with the slope of the head.
  std::int64_t alibi_heads = 0;
  // Logit soft-capping (Gemma 2): scores s become soft_cap x tanh(s / soft_cap). 0: off. On GPUs
  // not together with ALiBi.
  double soft_cap = 0;
  // Sliding window: newest positions that a query sees, itself included. 0: all.
  std::int64_t window = 0;

  std::int64_t heads() const { return groups * queries_per_group; }
  std::int64_t qkv_cols() const { return groups * (queries_per_group + 2) * head_dim; }
  std::int64_t ctx_cols() const { return heads() * head_dim; }
};

// Attention over whole sequences. Where there is a sliding window, first_visible contains it.
struct AttentionShape : AttentionRule {
  // Optional [batch * seq]: first position that each query may look at (documents packed into one
  // sample, windows); null means 0. Positions count within the sample.
  const std::int32_t* first_visible = nullptr;
  // Optional [batch]: number of real positions of each sample (padding after them is never
  // read); null means seq.
  const std::int32_t* lengths = nullptr;
  Dropout dropout;  // on attention probabilities
};

// Causal attention of seq new positions per sequence against a cache, for generation: caches are
// [batch, capacity, groups, head_dim].
struct CachedAttentionShape : AttentionRule {
  std::int64_t capacity;
};

// How a router picks k of the experts for each row, by the scores that its logits give: the softmax
// over all experts, or the sigmoid of each. Of equal scores the expert with the lower number wins.
struct RouterRule {
  std::int64_t top_k;
  bool sigmoid;
  // Softmax: weights are the softmax over the chosen experts alone. Sigmoid: scores over their sum
  // (+ 1e-20) where top_k > 1. Otherwise weights are the scores. All are multiplied by `scaling`.
  bool normalize;
  double scaling;
  // Experts of the top_groups of `groups` only: those whose best top_k / top_groups scores have the
  // largest sums (DeepSeek-AI 2024, arXiv 2412.19437).
  std::int64_t groups, top_groups;
};
struct RouterShape : RouterRule {
  std::int64_t rows, experts;
};

// In gradients choices are counted in this unit: the integers of exact numerics have room for that
// many of them, and every count up to 2^24 is a float.
inline constexpr double choice_unit = 0x1p-20;

// Losses of a router that go into its gradient. Over a unit of `unit_rows` rows (a sequence, or the
// micro-batch), with p the scores divided by their sum and f_e the share of expert e in the
// top_k x unit_rows choices by plain score: aux_coeff * experts * sum_e f_e mean(p_e) (Fedus et al.
// 2021), and z_coeff * mean(log-sum-exp(logits)^2) (Zoph et al. 2022). A unit weighs as many
// sequences as it has in the gradient (StepBlock::sample_scale for each).
struct RouterLosses {
  double aux_coeff, z_coeff;
  std::int64_t unit_rows, seq;
  // Where ranks share units: row 0 is row first_row of what this rank's units have here and on the
  // ranks that share these sequences' rows with it, unit_rows each; on all ranks together a unit
  // has whole_rows (0: unit_rows).
  std::int64_t first_row = 0, whole_rows = 0;
  // Totals add up losses of this many rows at a time (0: of all rows of a unit that are here).
  std::int64_t block_rows = 0;

  double rows() const { return static_cast<double>(whole_rows > 0 ? whole_rows : unit_rows); }
};

// How rows are put in the order of experts. An expert keeps at most `capacity` choices of each
// `unit_rows` rows (0: all).
struct DispatchRule {
  std::int64_t experts;
  std::int64_t capacity, unit_rows;
  bool by_weight;  // those with the largest weights, the earlier of equal ones; false: the earliest
  std::int64_t blocks = 1;  // equal blocks of rows, told apart in the offsets
};
// Rows by expert: the rows * top_k choices in the order of experts and, for one expert, of rows.
struct DispatchShape : DispatchRule {
  std::int64_t rows, top_k;
};

// Rows [rows, cols] and their copies in the order of experts, [taken, cols].
struct PermuteShape {
  std::int64_t rows, cols, taken, top_k, experts;
};

// A matrix cut into tiles that are rounded to fp8 with a scale each. Rows come in runs (sequences,
// or the rows of an expert) that no tile leaves; the last tiles of a run and of a row may be
// smaller.
struct Fp8Tiles {
  std::int64_t rows, cols;
  std::int64_t run;  // divides rows
  std::int64_t tile_rows, tile_cols;
  Fp8Type type;
  bool power_of_2_scales;
  // Runs of any length instead: the rows [offsets[g], offsets[g + 1]) of each of `groups` groups.
  // What belongs to none is neither read nor written.
  const std::int32_t* offsets = nullptr;
  std::int64_t groups = 0;

  constexpr std::int64_t tiles_of_row() const { return (cols + tile_cols - 1) / tile_cols; }
  // Rows of tiles, in a run and in all, and the one that a row lies in.
  constexpr std::int64_t bands_of_run() const { return (run + tile_rows - 1) / tile_rows; }
  constexpr std::int64_t bands() const {
    return groups > 0 ? rows / tile_rows + groups : rows / run * bands_of_run();
  }
  // First band of a group, whatever its length and those of others: some bands may be left over
  // between groups.
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

// The same of several groups of rows, each with a weight of its own: weight is [groups * out, in],
// and the rows [offsets[g], offsets[g + 1]) belong to group g. Of `rows` the last may belong to
// none. With blocks the rows of each group are `blocks` products, one after the other: offsets are
// those of groups * blocks.
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
