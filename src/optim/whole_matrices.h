// Gathers each sharded 2-D parameter's direction on one owner, which runs the step on the whole
// matrix, and scatters the results.
//
// Parameters are assigned to all ranks that share the states or shard the layers, the most
// expensive first, in rounds of one parameter per rank: a pure function of shapes and degrees. A
// parameter replicated over the tensor-parallel ranks is processed by all of them.
#pragma once

#include <memory>
#include <vector>

#include "optim/rules.h"
#include "parallel/gradients.h"
#include "parallel/groups.h"
#include "parallel/states/state_layout.h"

namespace trireme {

class WholeMatrices {
 public:
  // Plans without allocating. All arguments must outlive this object.
  WholeMatrices(const Stage& stage, const StateLayout& layout, const Gradients& gradients,
                std::unique_ptr<MatrixStep> step);

  std::int64_t bytes() const { return memory_bytes_; }
  // `memory`: a device region of the size given by memory().
  void allocate(std::byte* memory, const Groups& groups);

  // Runs the step of every matrix, in place of the gradients. Collective over the stage.
  void run();

 private:
  struct Item {
    int parameter;
    int shard;   // rank of the owner among those that share the states
    int tensor;  // and among tensor-parallel ranks; -1: all of them
  };
  using Round = std::vector<Item>;
  // Rows of a matrix that a tensor-parallel rank holds.
  struct Rows {
    std::int64_t matrix_row, piece_row, rows, column;
  };

  const ParameterSpec& spec(const Item& item) const;
  int bucket(const Item& item) const { return layout_.bucket_of(item.parameter); }
  void distribute();
  void plan_memory();
  // Slot of the local piece, among the items of a round with the same shard.
  int slot(const Item& item) const { return item.tensor < 0 ? 0 : item.tensor; }
  bool is_mine(const Item& item) const;
  std::byte* gradient(const OwnedSlice& slice) const;
  std::byte* local(const Item& item) const;   // the piece of this tensor-parallel rank
  std::byte* pieces(const Item& item) const;  // those of all, one after another
  void move_shards(const Round& round, bool to_owner);
  void move_pieces(const Round& round, bool to_owner);
  void take(const Item& item);
  std::vector<Rows> rows_of(const ParameterSpec& spec, int matrix, int tensor_rank) const;
  void copy(const Item& item, int matrix, std::byte* whole, bool into_matrix) const;

  const Stage& stage_;
  const StateLayout& layout_;
  const Gradients& gradients_;
  const std::unique_ptr<MatrixStep> step_;
  const std::int64_t width_;  // bytes per gradient element
  int tensor_ranks_ = 1;
  std::vector<Round> rounds_;
  std::int64_t largest_piece_ = 0;  // bytes
  std::int64_t local_bytes_ = 0, pieces_bytes_ = 0, narrow_bytes_ = 0, matrix_bytes_ = 0;
  std::int64_t memory_bytes_ = 0;
  std::byte *local_ = nullptr, *pieces_ = nullptr, *narrow_ = nullptr, *matrix_ = nullptr,
            *scratch_ = nullptr;
  const Groups* groups_ = nullptr;
};

}  // namespace trireme
