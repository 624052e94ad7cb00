// Reads an assembler's tensors in pieces of whole rows, for files written sequentially.
#pragma once

#include <functional>
#include <span>

#include "formats/joined_tensors.h"
#include "tensors/mapping.h"

namespace trireme {

// Rows [row, row + rows) of a tensor as stored (the last dimension is a row; a vector has rows of
// one element).
struct TensorPiece {
  std::int64_t row = 0, rows = 0;
  std::span<const std::byte> bytes;
};

// Number of rows of a tensor.
std::int64_t rows_of(const Shape& shape);

// Calls `use` with consecutive pieces of an assembler target, as type `dtype`. Rows are
// passed in the stored order according to `order`; the target has them in the used order.
// Memory: about 16 MiB at a time; more only if single rows (with an order: single heads) are
// larger.
void for_each_piece(const TensorAssembler& assembler, std::size_t target, DType dtype,
                    const RowOrder& order, const std::function<void(const TensorPiece&)>& use);
// Same, for rows [begin, end) only, which must be whole heads if there is an order.
void for_each_piece(const TensorAssembler& assembler, std::size_t target, DType dtype,
                    const RowOrder& order, std::int64_t begin, std::int64_t end,
                    const std::function<void(const TensorPiece&)>& use);

}  // namespace trireme
