// Nodes of a graph: an op, its attributes and its operands, as plain data.
#pragma once

#include <array>
#include <cstdint>
#include <variant>

#include "backend/shapes.h"
#include "base/kinds.h"
#include "graph/value.h"

namespace trireme {

// All ops. The definition of each, <name>_op, is in its file in graph/ops/; this list generates the
// enumeration and the table of definitions.
// clang-format off
#define TRIREME_OPS(X)                  \
  X(embedding)                          \
  X(embedding_grad)                     \
  X(norm)                               \
  X(norm_grad)                          \
  X(head_norm)                          \
  X(head_norm_grad)                     \
  X(head_sums)                          \
  X(linear)                             \
  X(linear_input_grad)                  \
  X(linear_weight_grad)                 \
  X(bias_grad)                          \
  X(activation)                         \
  X(activation_grad)                    \
  X(rope)                               \
  X(latent_heads)                       \
  X(latent_heads_grad)                  \
  X(attention)                          \
  X(attention_grad)                     \
  X(context_attention)                  \
  X(context_attention_grad)             \
  X(attention_delta)                    \
  X(ring_attention)                     \
  X(ring_attention_grad)                \
  X(cached_attention)                   \
  X(reorder)                            \
  X(add)                                \
  X(scale)                              \
  X(soft_cap)                           \
  X(soft_cap_grad)                      \
  X(slice)                              \
  X(gather)                             \
  X(gather_grad)                        \
  X(softmax_stats)                      \
  X(token_loss)                         \
  X(softmax_merge)                      \
  X(cross_entropy_grad)                 \
  X(classifier)                         \
  X(router)                             \
  X(router_input_grad)                  \
  X(router_weight_grad)                 \
  X(route)                              \
  X(route_grad)                         \
  X(routed_tokens)                      \
  X(dispatch)                           \
  X(permute_rows)                       \
  X(unpermute_rows)                     \
  X(grouped_linear)                     \
  X(grouped_linear_input_grad)          \
  X(grouped_linear_weight_grad)         \
  X(remote_experts)                     \
  X(remote_experts_grad)                \
  X(combine)                            \
  X(combine_grad)                       \
  X(gate_rows)                          \
  X(gate_rows_grad)                     \
  X(mix_rows)                           \
  X(mix_rows_grad)                      \
  X(grad_all_reduce)                    \
  X(all_reduce)                         \
  X(all_gather)                         \
  X(local_rows)                         \
  X(all_to_all)                         \
  X(reduce_scatter)                     \
  X(short_conv)                         \
  X(short_conv_input_grad)              \
  X(short_conv_weight_grad)             \
  X(decay_rates)                        \
  X(decay_rates_grad)                   \
  X(delta_rule)                         \
  X(delta_rule_grad)                    \
  X(gate_heads)                         \
  X(gate_heads_grad)                    \
  X(attention_sink_grad)                \
  X(group_bias_grad)
// clang-format on

#define TRIREME_OP(name) name,
enum class OpKind : std::uint8_t { TRIREME_OPS(TRIREME_OP) count };
#undef TRIREME_OP

// The pass that a node belongs to. Gradients of inputs and of weights are separate phases, so that
// a schedule can place them independently.
enum class Phase : std::uint8_t { forward, input_grad, weight_grad };

struct NormAttributes : NormRule {
  DropoutRule dropout;   // of the addend, if there is one
  std::int64_t seq = 0;  // positions per sequence; 0: rows / batch, with all rows on this rank
};
// The process group of a collective op: the kind of group and its size.
enum class GroupKind : std::uint8_t { tensor, context, expert, count };
struct GraphGroup {
  GroupKind kind = GroupKind::tensor;
  int size = 1;
};
// "tensor", "context", "expert"
const char* name_of(GroupKind kind);
// Splits the inputs or outputs of a linear layer into equal leaves, each computed as a separate
// product. Sums over all leaves use one binary tree, which starts with the `count` local leaves and
// ends across the ranks of the group; all ranks have the same power-of-two number of leaves.
struct LeafCut {
  std::int64_t count = 0;   // 0: the layer is one product
  std::int64_t blocks = 1;  // of outputs, e.g. gate and up: a leaf has an equal part of each
  bool of_inputs = false;
  GraphGroup group = {};
  // Leaves with the same key and value heads: each of `groups` equal groups of outputs ends with
  // `shared` outputs, which every leaf of the group computes for itself. Results are leaf by leaf.
  std::int64_t groups = 0, shared = 0;

  // Columns of the result of a layer with this many outputs.
  std::int64_t columns(std::int64_t outputs) const { return outputs + (count - groups) * shared; }
};
struct LinearAttributes {
  // Tensor parallelism: only one rank adds the bias before the products are summed. Every rank
  // computes the gradient of the bias.
  bool adds_bias = true;
  bool may_round = true;  // computes in fp8 where the graph's linear layers do
  LeafCut leaves = {};
};
struct ActivationAttributes {
  ActivationRule rule;
};
struct AttentionAttributes : AttentionRule {
  DropoutRule dropout;
  std::int64_t capacity;  // of the cache, for cached attention
  int context_ranks = 1;
  bool reports_scores = false;  // raises StepBlock::largest_scores
};
struct GateHeadsAttributes : GateHeadsRule {
  // Equal parts of the local heads that add to fixed-point gradients separately; 0: one
  std::int64_t leaves = 0;
};
struct ScaleAttributes {
  double factor;
};
struct SoftCapAttributes {
  double cap;
};
// Copy with permuted order, of one part or two.
struct ReorderAttributes {
  std::int64_t rows, columns;  // of the result
  int parts = 1;
  BlockCopy copies[2];
  bool rest_is_zero = false;  // zeros what the parts do not write; false: they write all
};
// Heads of latent attention: rotary embedding applies to the first rope_dim of the head_dim
// elements of each query and key; values have value_dim elements.
struct LatentAttributes {
  std::int64_t heads, head_dim, rope_dim, value_dim;
  // With a count: the gradient of the key part that all heads share is a sum over leaves of heads.
  LeafCut leaves = {};

  std::int64_t plain_dim() const { return head_dim - rope_dim; }
};
struct RopeAttributes {
  std::int64_t seq, groups, queries_per_group, head_dim, rotary_dim;
  int direction;
};
struct EmbeddingAttributes {
  std::int64_t seq, first_id;
};
struct AddAttributes {
  DropoutRule dropout;
  std::int64_t seq;
};
struct SliceAttributes {
  std::int64_t first_row, rows;
};
struct GatherAttributes {
  std::int64_t source_rows;
};
struct LossAttributes {
  std::int64_t vocab, first_id;
  std::int64_t leaves = 0;  // equal parts of the local logits with separate statistics; 0: none
};
struct SoftmaxMergeAttributes {
  GraphGroup group;
  std::int64_t leaves = 0;  // as above
};
struct HeadNormAttributes : HeadNormRule {
  GraphGroup group = {};  // the ranks whose heads one norm spans, with all_heads
  // Equal parts of the local heads that add to fixed-point gradients separately or, with all_heads,
  // are leaves of the sums over all heads; 0: one
  std::int64_t leaves = 0;
};
struct RouteAttributes : RouterRule {
  RouterLosses losses;  // whole_rows and block_rows follow from the graph and the groups
  // With rows sharded over ranks: the number of rows on all tensor-parallel ranks together (0: the
  // local rows), and the ranks that hold other rows of the same sequences.
  std::int64_t all_rows = 0;
  GraphGroup tensor = {}, context = {GroupKind::context, 1};
};
// The part of GroupedShape that the operands do not determine.
struct GroupedAttributes {
  std::int64_t blocks = 1;  // of the rows of each group
  // The first element of the first group's bias, and from one group's to the next one's.
  std::int64_t first_bias = 0, bias_stride = 0;
};
struct PermuteAttributes {
  std::int64_t taken;  // rows by expert
};
struct CollectiveAttributes {
  GraphGroup group;
  bool in_place = false;  // all_reduce: the result overwrites the operand
  // Index of this rank in the group if the gradient of an all_gather's result is complete on every
  // rank; -1: each rank has a partial sum.
  int own = -1;
  // Each element is +0 on all ranks but one: the sum reproduces the bits of that rank.
  bool selects = false;
};
struct RemoteExpertsAttributes {
  GraphGroup group;
  int tensor_size;  // adjacent ranks that an expert is cut over
  ActivationRule activation;
  std::int64_t round_rows;  // that an owner takes in one round
  std::int64_t blocks = 1;  // of the rows of each expert
};

using Attributes =
    std::variant<std::monostate, NormAttributes, ActivationAttributes, AttentionAttributes,
                 RopeAttributes, LatentAttributes, HeadNormAttributes, ScaleAttributes,
                 SoftCapAttributes, EmbeddingAttributes, AddAttributes, SliceAttributes,
                 GatherAttributes, LossAttributes, LinearAttributes, CollectiveAttributes,
                 ReorderAttributes, RouteAttributes, DispatchRule, PermuteAttributes,
                 GroupedAttributes, RemoteExpertsAttributes, SoftmaxMergeAttributes, ShortConvRule,
                 DecayRule, DeltaRule, GateHeadsAttributes>;

struct Node {
  static constexpr int max_inputs = 8;
  static constexpr int max_outputs = 5;

  OpKind op;
  Phase phase = Phase::forward;
  Attributes attributes;
  std::array<ValueId, max_inputs> inputs;    // no_value where an optional operand is absent
  std::array<ValueId, max_outputs> outputs;  // no_value if there is none
  std::int32_t workspace = -1;  // set by the planner if needed: index in SegmentPlan::workspaces

  template <class T>
  const T& as() const {
    return std::get<T>(attributes);
  }
};

}  // namespace trireme
