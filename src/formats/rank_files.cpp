// Each tensor is read once, piece by piece; every rank's part of a piece goes to that rank's file.
// For any split, a rank's rows are in the order of the whole tensor.
#include "formats/rank_files.h"

#include <algorithm>

#include "base/error.h"
#include "tensors/cast.h"

namespace trireme {

std::vector<std::int64_t> part_shape(const Shape& whole, const RankCut& cut, int ranks) {
  std::vector<std::int64_t> shape(whole.begin(), whole.end());
  if (cut.along == RankCut::Along::none) return shape;
  std::int64_t& size = cut.along == RankCut::Along::rows ? shape.front() : shape.back();
  if (cut.padded_rows > 0) size = cut.padded_rows;
  TRIREME_CHECK(size % (cut.blocks * ranks) == 0);
  size /= ranks;
  return shape;
}

RankFiles::RankFiles(const std::vector<fs::path>& paths, const TorchValue& root)
    : offset_(paths.size()) {
  for (const fs::path& path : paths) writers_.push_back(std::make_unique<TorchWriter>(path, root));
}

void RankFiles::append(std::size_t rank, std::span<const std::byte> bytes) {
  writers_[rank]->write(tensor_, offset_[rank], bytes.data(), bytes.size());
  offset_[rank] += bytes.size();
}

void RankFiles::share_rows(const TensorPiece& piece, std::int64_t rows, const RankCut& cut) {
  const std::int64_t block = (cut.padded_rows > 0 ? cut.padded_rows : rows) / cut.blocks;
  const std::int64_t part = block / ranks();
  const std::size_t row_bytes = piece.bytes.size() / static_cast<std::size_t>(piece.rows);
  const std::int64_t end = piece.row + piece.rows;
  for (std::int64_t row = piece.row; row < end;) {
    const std::int64_t next = std::min(end, (row / part + 1) * part);
    append(static_cast<std::size_t>(row % block / part),
           piece.bytes.subspan(static_cast<std::size_t>(row - piece.row) * row_bytes,
                               static_cast<std::size_t>(next - row) * row_bytes));
    row = next;
  }
  if (end == rows) {
    const auto last = piece.bytes.last(row_bytes);
    last_row_.assign(last.begin(), last.end());
  }
}

void RankFiles::share_columns(const TensorPiece& piece) {
  const std::size_t rows = static_cast<std::size_t>(piece.rows), row = piece.bytes.size() / rows;
  const std::size_t part = row / writers_.size();
  std::vector<std::byte> columns(rows * part);
  for (std::size_t rank = 0; rank < writers_.size(); ++rank) {
    for (std::size_t i = 0; i < rows; ++i)
      std::ranges::copy(piece.bytes.subspan(i * row + rank * part, part),
                        columns.data() + i * part);
    append(rank, columns);
  }
}

void RankFiles::fill_last_row(float value, DType dtype) {
  const auto element = static_cast<std::size_t>(size_of(dtype));
  for (std::size_t at = 0; at < last_row_.size(); at += element)
    cast(DType::f32, reinterpret_cast<const std::byte*>(&value), dtype, last_row_.data() + at, 1);
}

void RankFiles::pad(std::int64_t rows, const RankCut& cut) {
  const std::int64_t part = cut.padded_rows / ranks();
  for (std::int64_t row = rows; row < cut.padded_rows; ++row)
    append(static_cast<std::size_t>(row / part), last_row_);
}

void RankFiles::write(const TensorAssembler& assembler, std::size_t target, DType dtype,
                      const RankCut& cut, const RowOrder& order) {
  using enum RankCut::Along;
  const Shape& shape = assembler.targets()[target].shape;
  std::ranges::fill(offset_, 0);
  for_each_piece(assembler, target, dtype, order, [&](const TensorPiece& piece) {
    if (cut.along == rows) return share_rows(piece, shape[0], cut);
    if (cut.along == columns) return share_columns(piece);
    for (std::size_t rank = 0; rank < writers_.size(); ++rank) append(rank, piece.bytes);
  });
  if (cut.padding) fill_last_row(*cut.padding, dtype);
  if (cut.padded_rows > 0) pad(shape[0], cut);
  ++tensor_;
}

void RankFiles::finish() {
  for (const auto& writer : writers_) writer->finish();
}

}  // namespace trireme
