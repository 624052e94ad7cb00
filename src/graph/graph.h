// The graph of one segment of a model (an embedding, a block, a head): built once per shape, then
// differentiated, rewritten and planned. At run time nothing is allocated or looked up by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fp8.h"
#include "graph/node.h"

namespace trireme {

// Contiguous rows of the full parameter held by this rank: local rows [local_row, + rows) are rows
// [row, + rows) of the full parameter. Rows are counted along dimension 0.
struct RowPiece {
  std::int64_t local_row = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
};

// Initialization, sharding and optimizer treatment of a parameter.
struct ParameterSpec {
  // log_uniform: the logarithm of a uniform number in (0, 16).
  enum class Init : std::uint8_t { normal, ones, zeros, log_uniform };

  std::string name;   // within the segment, e.g. "attention.qkv.weight"
  Shape shape;        // as computed with: padded, and the local part under tensor parallelism
  Shape saved_shape;  // shape of the full parameter, without padding
  Init init = Init::normal;
  double init_std = 0;
  bool decay = true;  // weight decay: not for biases and one-dimensional tensors

  // Tensor parallelism: the part of the full parameter that this rank holds.
  std::vector<RowPiece> pieces;   // ascending local_row; empty: row i is row i of the full one
  std::int64_t first_column = 0;  // column of the full parameter that is column 0 here
  bool split = false;             // false: every rank of the tensor-parallel group has all of it
  // Replicated on every rank, but the gradient covers only this rank's rows of the activations
  // (sequence parallelism) or this rank's heads: it must be summed over the tensor-parallel group.
  bool partial_gradient = false;
  // `copies` neighbors in the tensor-parallel group share the last `copied_rows` rows of their
  // parts (replicated key and value heads); `copy` is this rank's index among them. The gradient of
  // these rows comes from this rank's queries only: it must be summed over the copies.
  int copies = 1, copy = 0;
  std::int64_t copied_rows = 0;
  // Index of the first element of those rows, and number of leading elements that this rank owns
  // for norms and checkpoints: the first copy owns the shared rows.
  std::int64_t first_copied() const {
    return copies == 1 ? shape.count() : shape.count() / shape[0] * (shape[0] - copied_rows);
  }
  std::int64_t owned_count() const { return copy == 0 ? shape.count() : first_copied(); }

  // Matrices that a linear layer's weight consists of, for optimizers that update whole matrices.
  // Entry i is the number of consecutive rows of the full parameter that belong to matrix i; the
  // list repeats after its last entry. Empty: not a matrix of this kind (embedding tables, heads,
  // vectors).
  std::vector<std::int64_t> matrix_rows;

  // Expert parallelism: `pieces` and matrix_rows describe this rank's experts. The gradient is
  // summed over the ranks that hold the same experts; those ranks also share its optimizer states.
  bool of_experts = false;
  // With of_experts: elements, of parts cut like this one, in the experts of the owners before.
  std::int64_t expert_elements_before = 0;
  // Number of adjacent elements whose squares are added before the exact sum: every cut of exact
  // leaves falls on a multiple of it.
  std::int64_t squares_at_once = 256;
  // The gradient is produced in 64-bit fixed point: one pass adds the contributions of several
  // micro-batches, each rounded separately.
  bool fixed_point = false;

  // Meaning of the gradient of a router's parameter: counts of expert choices, excluded from the
  // gradient norm. `bias`: each step moves the bias toward an even load by `balance_rate`. `load`:
  // the parameter becomes each expert's choices divided by their mean.
  enum class Counts : std::uint8_t { nothing, bias, load };
  Counts counts = Counts::nothing;
  double balance_rate = 0;

  bool is_table = false;  // rows are words, positions or segments: vector-like, whatever the width
  bool is_qk_norm = false;  // weight of the norm of queries or keys
  // Query and key projections: consecutive rows of the full parameter by what QK-clip multiplies
  // them with (optim/qk_clip.h). The list repeats for each group of heads that share a key.
  enum class Clip : std::uint8_t { nothing, query, key, query_and_key };
  struct ClipRows {
    Clip clip;
    std::int64_t rows;
  };
  std::vector<ClipRows> clip_rows;
};

// FP8 settings of a graph's linear layers, whose products read operands rounded to fp8.
struct Fp8Products {
  Fp8Recipe recipe = Fp8Recipe::none;
  Fp8Type forward = Fp8Type::e4m3;   // of activations and weights
  Fp8Type backward = Fp8Type::e4m3;  // of gradients of activations
  bool power_of_2_scales = false;
  // Contiguous rows of one sequence on this rank, and contiguous positions within them.
  std::int64_t sequence_rows = 0, run_rows = 0;
  // Ranks that hold the other parts of the same matrices and sequences.
  GraphGroup tensor = {}, context = {GroupKind::context, 1};
};

class Graph {
 public:
  // `compute` is the type of activations and weights; statistics and weight gradients are f32, or
  // f64 with f64. With `exact_block`, products run over blocks of that many rows (it divides the
  // rows of every product), and each block's weight gradient is added to 64-bit fixed-point numbers
  // separately, so that the sum does not depend on the number of blocks in a call.
  explicit Graph(DType compute, std::int64_t exact_block = 0)
      : compute_(compute), exact_block_(exact_block) {}

  DType compute() const { return compute_; }
  DType accumulate() const { return compute_ == DType::f64 ? DType::f64 : DType::f32; }
  std::int64_t exact_block() const { return exact_block_; }
  DType gradient_type() const { return exact_block_ > 0 ? DType::i64 : accumulate(); }
  // Set after the graph is built; no shape depends on it.
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
  // Creates a value that aliases the memory of `owner`, starting at `byte_offset`.
  ValueId new_view(ValueId owner, Shape shape, std::int64_t byte_offset);
  // Places a new internal value inside the memory of another value (gradients of slices).
  void place_in(ValueId value, ValueId owner, std::int64_t byte_offset);
  // Returns the gradient accumulator of a parameter.
  ValueId gradient_of(ValueId parameter);

  // --- nodes ---
  // Appends a node to the forward list or, during differentiation, to the backward list. The op's
  // shape rule creates the outputs.
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

  // Used by differentiate().
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
  std::vector<ValueId> gradients_;  // by parameter; no_value until requested
  ValueId input_ = no_value, output_ = no_value;
  ValueId output_grad_ = no_value, input_grad_ = no_value;
};

}  // namespace trireme
