// Files of torch.save, one for each rank of tensor parallelism, that share tensors between them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/tensor_pieces.h"
#include "formats/torch/writer.h"

namespace trireme {

// How the ranks share a tensor that is read as a matrix; none: each has all of it.
struct RankCut {
  enum class Along : std::uint8_t { none, rows, columns } along = Along::none;
  // By rows: the tensor is this many equal blocks of rows, and each rank has its part of each
  // block.
  std::int64_t blocks = 1;
  // By rows: all ranks together have this many, and those after the last row repeat it; 0: none.
  std::int64_t padded_rows = 0;
  std::optional<float> padding = {};  // what they hold instead
};

// The shape of a rank's part. What is cut is divisible by the number of ranks.
std::vector<std::int64_t> part_shape(const Shape& whole, const RankCut& cut, int ranks);

class RankFiles {
 public:
  // Creates a file for each rank, with the tensors that `root` declares; all ranks have the same.
  RankFiles(const std::vector<fs::path>& paths, const TorchValue& root);

  // Writes the next tensor of `root`: a target of the assembler, in pieces. `dtype` and
  // part_shape() are as `root` declares them.
  void write(const TensorAssembler& assembler, std::size_t target, DType dtype, const RankCut& cut,
             const RowOrder& order = {});
  // Closes the files and gives them their names. Without it, none remains.
  void finish();

 private:
  int ranks() const { return static_cast<int>(writers_.size()); }
  void append(std::size_t rank, std::span<const std::byte> bytes);
  void share_rows(const TensorPiece& piece, std::int64_t rows, const RankCut& cut);
  void share_columns(const TensorPiece& piece);
  void fill_last_row(float value, DType dtype);
  void pad(std::int64_t rows, const RankCut& cut);

  std::vector<std::unique_ptr<TorchWriter>> writers_;
  std::size_t tensor_ = 0;             // the one that is written next
  std::vector<std::uint64_t> offset_;  // by rank: bytes of it that are written
  std::vector<std::byte> last_row_;
};

}  // namespace trireme
