// Writes torch.save files, one per tensor-parallel rank, with tensors sharded between them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/tensor_pieces.h"
#include "formats/torch/writer.h"

namespace trireme {

// Sharding of a tensor, viewed as a matrix, across ranks; none: replicated.
struct RankCut {
  enum class Along : std::uint8_t { none, rows, columns } along = Along::none;
  // For rows: the tensor consists of this many equal blocks of rows, and each rank has its part of
  // every block.
  std::int64_t blocks = 1;
  // For rows: total rows with padding, which repeats the last row; 0: no padding.
  std::int64_t padded_rows = 0;
  std::optional<float> padding = {};  // value of the padding instead
};

// Shape of a rank's shard. The split dimension must be divisible by the number of ranks.
std::vector<std::int64_t> part_shape(const Shape& whole, const RankCut& cut, int ranks);

class RankFiles {
 public:
  // Creates one file per rank with the tensors declared in `root`, the same on all ranks.
  RankFiles(const std::vector<fs::path>& paths, const TorchValue& root);

  // Writes the next tensor of `root` from a target of the assembler, in pieces. `dtype` and
  // part_shape() must match its declaration in `root`.
  void write(const TensorAssembler& assembler, std::size_t target, DType dtype, const RankCut& cut,
             const RowOrder& order = {});
  // Closes the files and renames them to their final names. Without this call, no file remains.
  void finish();

 private:
  int ranks() const { return static_cast<int>(writers_.size()); }
  void append(std::size_t rank, std::span<const std::byte> bytes);
  void share_rows(const TensorPiece& piece, std::int64_t rows, const RankCut& cut);
  void share_columns(const TensorPiece& piece);
  void fill_last_row(float value, DType dtype);
  void pad(std::int64_t rows, const RankCut& cut);

  std::vector<std::unique_ptr<TorchWriter>> writers_;
  std::size_t tensor_ = 0;             // next tensor to write
  std::vector<std::uint64_t> offset_;  // by rank: bytes of it already written
  std::vector<std::byte> last_row_;
};

}  // namespace trireme
