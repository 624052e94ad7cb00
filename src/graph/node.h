// Nodes of a graph: an op, its attributes and its operands, as plain data.
#pragma once

#include <array>
#include <cstdint>
#include <variant>

#include "base/kinds.h"
#include "graph/value.h"

namespace trireme {

// Every op. Each has its definition, <name>_op, in a file of graph/ops/; this list makes the
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
  X(take_rows)                          \
  X(take_rows_grad)                     \
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
  X(unit_choices)                       \
  X(dispatch)                           \
  X(spread_rows)                        \
  X(collect_rows)                       \
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
  X(own_rows)                           \
  X(all_to_all)                         \
  X(reduce_scatter)
// clang-format on

#define TRIREME_OP(name) name,
enum class OpKind : std::uint8_t { TRIREME_OPS(TRIREME_OP) count };
#undef TRIREME_OP

// The pass that a node belongs to. Gradients with respect to inputs and to weights are separate, so
// that a schedule can place them separately.
enum class Phase : std::uint8_t { forward, input_grad, weight_grad };

struct DropoutAttributes {
  float probability = 0;
  std::uint32_t site = 0;      // place within the block; the layer is added when it runs
  std::int64_t first_row = 0;  // of the [batch, seq] rows (sequence parallelism)
  SequenceCut cut = {};        // of the seq positions (context parallelism)
};
struct NormAttributes {
  NormKind kind;
  double eps;
  DropoutAttributes dropout;  // of the addend, if there is one
  std::int64_t seq = 0;       // positions per sequence; 0: rows / batch, with all rows on this rank
  bool zero_centred = false;  // multiplies by 1 + weight
};
struct LinearAttributes {
  // Tensor parallelism: only one rank adds the bias before the products are summed. Every rank
  // computes its gradient.
  bool adds_bias = true;
  bool may_round = true;  // computes in fp8 where the graph's linear layers do
};
struct ActivationAttributes {
  ActivationKind kind;
};
struct AttentionAttributes {
  std::int64_t batch, seq, groups, queries_per_group, head_dim;
  bool causal;
  double scale;
  std::int64_t first_head;
  DropoutAttributes dropout;
  std::int64_t capacity;    // of the cache, for cached attention
  std::int64_t window = 0;  // positions that one sees, itself included; 0: all
  // Context parallelism: seq counts whole sequences, of which this rank's rows are a cut.
  SequenceCut cut = {};
  int context_ranks = 1;
  std::int64_t alibi_heads = 0;  // heads of the whole layer, with ALiBi; 0: without
  double soft_cap = 0;           // of scores; 0: without
};
struct ScaleAttributes {
  double factor;
};
struct SoftCapAttributes {
  double cap;
};
// A copy in another order, of one part or two.
struct ReorderAttributes {
  std::int64_t rows, columns;  // of the result
  int parts = 1;
  BlockCopy copies[2];
  bool rest_is_zero = false;  // what the parts do not write; otherwise they write everything
};
// Heads of latent attention: the first rope_dim of the head_dim elements of a query and of a key
// are those that positions turn, and a value has value_dim.
struct LatentAttributes {
  std::int64_t heads, head_dim, rope_dim, value_dim;

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
  DropoutAttributes dropout;
  std::int64_t seq;
};
struct SliceAttributes {
  std::int64_t first_row, rows;
};
struct TakeRowsAttributes {
  std::int64_t source_rows;
};
struct LossAttributes {
  std::int64_t vocab, first_id;
};
// The ranks that a collective op communicates with: one of this rank's groups, and its size.
enum class GroupKind : std::uint8_t { tensor, context, expert, count };
struct GraphGroup {
  GroupKind kind = GroupKind::tensor;
  int size = 1;
};
// "tensor", "context", "expert"
const char* name_of(GroupKind kind);
// With all_heads one norm spans all heads of queries, and one those of keys: of the ranks of a
// group together, where the rest is as in HeadNormShape of backend/kernels.h.
struct HeadNormAttributes {
  std::int64_t groups, queries_per_group, head_dim;
  double eps;
  bool all_heads = false;
  std::int64_t all_queries = 0, all_keys = 0;
  bool counts_keys = true;
  GraphGroup group = {};
};
// As RouterShape and RouterLosses of backend/kernels.h.
struct RouteAttributes {
  std::int64_t top_k;
  bool sigmoid, normalize;
  double scaling;
  std::int64_t groups, top_groups;
  double aux_coeff, z_coeff;
  std::int64_t unit_rows, seq;
  // Rows of units that ranks share: those on the tensor-parallel ranks together, the first one
  // here, and the ranks that have others of the same sequences.
  std::int64_t all_rows = 0, first_row = 0;  // all_rows 0: those here
  GraphGroup tensor = {}, context = {GroupKind::context, 1};
};
// As DispatchShape of backend/kernels.h.
struct DispatchAttributes {
  std::int64_t experts;
  std::int64_t capacity, unit_rows;
  bool by_weight;
  std::int64_t blocks = 1;
};
// As GroupedShape of backend/kernels.h.
struct GroupedAttributes {
  std::int64_t blocks = 1;  // of the rows of each group
};
struct SpreadRowsAttributes {
  std::int64_t taken;  // rows by expert
};
struct CollectiveAttributes {
  GraphGroup group;
  bool in_place = false;  // all_reduce: the result overwrites the operand
  // This rank among them, where the gradient of what an all_gather made is whole on every rank;
  // -1: it is a part of a sum.
  int own = -1;
};
struct RemoteExpertsAttributes {
  GraphGroup group;
  int slices;  // of an expert, on neighbors
  ActivationKind kind;
  std::int64_t round_rows;  // that an owner takes in one round
  std::int64_t blocks = 1;  // of the rows of each expert
};

using Attributes =
    std::variant<std::monostate, NormAttributes, ActivationAttributes, AttentionAttributes,
                 RopeAttributes, LatentAttributes, HeadNormAttributes, ScaleAttributes,
                 SoftCapAttributes, EmbeddingAttributes, AddAttributes, SliceAttributes,
                 TakeRowsAttributes, LossAttributes, LinearAttributes, CollectiveAttributes,
                 ReorderAttributes, RouteAttributes, DispatchAttributes, SpreadRowsAttributes,
                 GroupedAttributes, RemoteExpertsAttributes>;

struct Node {
  static constexpr int max_inputs = 8;
  static constexpr int max_outputs = 4;

  OpKind op;
  Phase phase = Phase::forward;
  Attributes attributes;
  std::array<ValueId, max_inputs> inputs;    // no_value where an optional operand is absent
  std::array<ValueId, max_outputs> outputs;  // no_value if there is none
  std::int32_t workspace = -1;  // once planned, if it needs any: index in SegmentPlan::workspaces

  template <class T>
  const T& as() const {
    return std::get<T>(attributes);
  }
};

}  // namespace trireme
