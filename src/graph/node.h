// Nodes of a graph: an op, its attributes and its operands, as plain data.
#pragma once

#include <array>
#include <cstdint>
#include <variant>

#include "backend/cpu/kernels.h"
#include "graph/value.h"

namespace trireme {

using cpu::ActivationKind;
using cpu::NormKind;

// Every op; each is defined in one file of ops/.
enum class OpKind : std::uint8_t {
  embedding,
  embedding_grad,
  norm,
  norm_grad,
  linear,
  linear_input_grad,
  linear_weight_grad,
  bias_grad,
  activation,
  activation_grad,
  rope,
  attention,
  attention_grad,
  cached_attention,
  add,
  slice,
  take_rows,
  take_rows_grad,
  softmax_stats,
  token_loss,
  softmax_merge,
  cross_entropy_grad,
  grad_all_reduce,
  all_reduce,
  all_gather,
  reduce_scatter,
  count,
};

// The pass that a node belongs to. Gradients with respect to inputs and to weights are separate, so
// that a schedule can place them separately.
enum class Phase : std::uint8_t { forward, input_grad, weight_grad };

struct DropoutAttributes {
  float probability = 0;
  std::uint32_t site = 0;      // place within the block; the layer is added when it runs
  std::int64_t first_row = 0;  // of the [batch, seq] rows (sequence parallelism)
};
struct NormAttributes {
  NormKind kind;
  double eps;
  DropoutAttributes dropout;  // of the addend, if there is one
  std::int64_t seq = 0;       // positions per sequence; 0: rows / batch, with all rows on this rank
};
struct LinearAttributes {
  // Tensor parallelism: only one rank adds the bias before the products are summed. Every rank
  // computes its gradient.
  bool adds_bias = true;
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
  std::int64_t capacity;  // of the cache, for cached attention
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
struct CollectiveAttributes {
  int size;       // ranks of the tensor-parallel group
  bool in_place;  // all_reduce: the result overwrites the operand
};

using Attributes =
    std::variant<std::monostate, NormAttributes, ActivationAttributes, AttentionAttributes,
                 RopeAttributes, EmbeddingAttributes, AddAttributes, SliceAttributes,
                 TakeRowsAttributes, LossAttributes, LinearAttributes, CollectiveAttributes>;

struct Node {
  static constexpr int max_inputs = 8;
  static constexpr int max_outputs = 4;

  OpKind op;
  Phase phase = Phase::forward;
  Attributes attributes;
  std::array<ValueId, max_inputs> inputs;    // no_value where an optional operand is absent
  std::array<ValueId, max_outputs> outputs;  // no_value where there is none
  ValueId workspace = no_value;
  std::int32_t prepared = -1;  // index of the kernel's prepared state, if it has one

  template <class T>
  const T& as() const {
    return std::get<T>(attributes);
  }
};

}  // namespace trireme
