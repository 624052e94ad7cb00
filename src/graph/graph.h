// The graph of one segment of a model (an embedding, a block, a head): built once per shape, then
// differentiated, rewritten and planned. Nothing is allocated or looked up by name once it runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fp8.h"
#include "graph/node.h"

namespace trireme {

// Rows of a whole parameter that are adjacent in the local part: local rows [local_row, + rows) are
// the whole's rows [row, + rows). Dimension 0 counts rows.
struct RowPiece {
  std::int64_t local_row = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
};

// How a parameter starts and how the optimizer treats it.
struct ParameterSpec {
  enum class Init : std::uint8_t { normal, ones, zeros };

  std::string name;   // within the segment, e.g. "attention.qkv.weight"
  Shape shape;        // as computed with: padded, and the local part under tensor parallelism
  Shape saved_shape;  // of the whole parameter, without padding
  Init init = Init::normal;
  double init_std = 0;
  bool decay = true;  // weight decay: not for biases and one-dimensional tensors

  // Tensor parallelism: which part of the whole this is.
  std::vector<RowPiece> pieces;   // rising in local_row; empty: row i is the whole's row i
  std::int64_t first_column = 0;  // column 0 is the whole's column first_column
  bool split = false;             // false: every rank of the tensor-parallel group has all of it
  // Every rank has all of it, but its gradient covers this rank's rows of the activations only
  // (sequence parallelism), or this rank's heads: to be summed over the tensor-parallel group.
  bool partial_gradient = false;
  // Of the tensor-parallel group `copies` neighbors, numbered by `copy`, have the last
  // `copied_rows` rows of their parts in common (heads of keys and values that they share). The
  // gradient of these rows is that of this rank's queries: to be summed over the copies.
  int copies = 1, copy = 0;
  std::int64_t copied_rows = 0;
  // The first element of those rows, and how many elements, from the first on, this rank owns
  // in norms and checkpoints: of copies the first one does.
  std::int64_t first_copied() const {
    return copies == 1 ? shape.count() : shape.count() / shape[0] * (shape[0] - copied_rows);
  }
  std::int64_t owned_count() const { return copy == 0 ? shape.count() : first_copied(); }

  // Of a linear layer's weight: the matrices that it consists of, for optimizers that update whole
  // matrices. Rows of the whole parameter belong to them in turn: the first this many to the first
  // matrix, the next ones to the second, and after the last to the first again. Empty: it is none
  // of these (tables of words, heads, vectors).
  std::vector<std::int64_t> matrix_rows;

  // Expert parallelism: `pieces` and matrix_rows are those of this rank's experts. Its gradient is
  // summed over the ranks that have the same experts, which share its states too.
  bool of_experts = false;
  // Then: elements of this rank's part, cut alike, that experts of other ranks have before it.
  std::int64_t expert_elements_before = 0;
  // Adjacent elements whose squares are added up before the sum without rounding: every cut of
  // exact leaves falls on a multiple of it.
  std::int64_t squares_at_once = 256;
  // Its gradient is produced as 64-bit fixed-point numbers: one pass adds the contributions of
  // several micro-batches, each separately.
  bool fixed_point = false;

  // Meaning of the gradient of a router's parameter: counts of choices of experts. It has no part
  // in the norm. A bias is moved towards an even load by `balance_rate` in each step; a load
  // becomes each expert's choices over their mean.
  enum class Counts : std::uint8_t { nothing, bias, load };
  Counts counts = Counts::nothing;
  double balance_rate = 0;
};

// How the linear layers of a graph compute: their products read operands that were rounded to fp8.
struct Fp8Products {
  Fp8Recipe recipe = Fp8Recipe::none;
  Fp8Type forward = Fp8Type::e4m3;   // of activations and weights
  Fp8Type backward = Fp8Type::e4m3;  // of gradients of activations
  bool power_of_2_scales = false;
  // Adjacent rows of one sequence that are here, and of these adjacent positions.
  std::int64_t sequence_rows = 0, run_rows = 0;
  // Ranks that have other parts of the same matrices and sequences.
  GraphGroup tensor = {}, context = {GroupKind::context, 1};
};

class Graph {
 public:
  // `compute` is the type of activations and weights; statistics and gradients of weights are f32,
  // or f64 with f64. With an `exact_block` products run over blocks of that many rows, which divide
  // the rows of every product, and each block's gradient of a weight is added to 64-bit fixed-point
  // numbers by itself: what a sum then is does not depend on how many blocks a call has.
  explicit Graph(DType compute, std::int64_t exact_block = 0)
      : compute_(compute), exact_block_(exact_block) {}

  DType compute() const { return compute_; }
  DType accumulate() const { return compute_ == DType::f64 ? DType::f64 : DType::f32; }
  std::int64_t exact_block() const { return exact_block_; }
  DType gradient_type() const { return exact_block_ > 0 ? DType::i64 : accumulate(); }
  // Set once the graph is built; nothing in its shape depends on it.
  const Fp8Products& fp8() const { return fp8_; }
  void set_fp8(const Fp8Products& products) { fp8_ = products; }

  // --- declarations ---
  ValueId parameter(ParameterSpec spec);
  ValueId batch(BatchInput which, DType dtype, Shape shape);
  ValueId constant(ConstantInput which, DType dtype, Shape shape);
  ValueId cache(CacheBuffer which, Shape shape);
  ValueId segment_input(Shape shape);
  // Declares an internal value as the segment's output.
  void set_output(ValueId value);
  void set_result(ValueId value, ResultOutput which);
  ValueId new_value(DType dtype, Shape shape, Role role = Role::internal, std::int32_t index = 0);
  // A value that shares the memory of `owner` from `byte_offset` on.
  ValueId new_view(ValueId owner, Shape shape, std::int64_t byte_offset);
  // Makes a new internal value a part of another value's memory (gradients of slices).
  void place_in(ValueId value, ValueId owner, std::int64_t byte_offset);
  // The accumulator of a parameter's gradient.
  ValueId gradient_of(ValueId parameter);

  // --- nodes ---
  // Appends a node to the forward or, while differentiating, to the backward list. The op's shape
  // rule makes the outputs.
  const Node& emit(OpKind op, Attributes attributes, std::initializer_list<ValueId> inputs);
  const Node& emit_grad(OpKind op, Phase phase, Attributes attributes,
                        std::initializer_list<ValueId> inputs);

  // --- reading ---
  const Value& value(ValueId id) const { return values_[id]; }
  Value& value(ValueId id) { return values_[id]; }
  ValueId value_count() const { return static_cast<ValueId>(values_.size()); }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  ValueId input() const { return input_; }
  ValueId output() const { return output_; }
  ValueId output_grad() const { return output_grad_; }
  ValueId input_grad() const { return input_grad_; }
  bool is_view(ValueId id) const { return values_[id].storage != id; }

  std::vector<Node> forward;
  std::vector<Node> backward;

  // Used by the differentiation.
  ValueId make_output_grad();
  void set_input_grad(ValueId value);

 private:
  const Node& append(std::vector<Node>& list, OpKind op, Phase phase, Attributes&& attributes,
                     std::initializer_list<ValueId> inputs);

  DType compute_;
  std::int64_t exact_block_;
  Fp8Products fp8_;
  std::vector<Value> values_;
  std::vector<ParameterSpec> parameters_;
  std::vector<ValueId> gradients_;  // by parameter; no_value until asked for
  ValueId input_ = no_value, output_ = no_value;
  ValueId output_grad_ = no_value, input_grad_ = no_value;
};

}  // namespace trireme
