// Tensors of an assembler in pieces of whole rows, for files that are written front to back.
#pragma once

#include <functional>
#include <span>

#include "formats/joined_tensors.h"
#include "tensors/mapping.h"

namespace trireme {

// Rows [row, row + rows) of a tensor as it is stored (the last dimension is a row; a vector has
// rows of one element).
struct TensorPiece {
  std::int64_t row = 0, rows = 0;
  std::span<const std::byte> bytes;
};

// How many rows a tensor has.
std::int64_t rows_of(const Shape& shape);

// Calls `use` with the rows of a target of the assembler as type `dtype`, one piece after the
// other. They come in the order in which `order` says that they are stored; the target has them as
// they are wanted. Memory: some 16 MiB at a time, more only where single rows (of an order: single
// heads) are larger.
void for_each_piece(const TensorAssembler& assembler, std::size_t target, DType dtype,
                    const RowOrder& order, const std::function<void(const TensorPiece&)>& use);
// The same with rows [begin, end) alone, which lie at whole heads where there is an order.
void for_each_piece(const TensorAssembler& assembler, std::size_t target, DType dtype,
                    const RowOrder& order, std::int64_t begin, std::int64_t end,
                    const std::function<void(const TensorPiece&)>& use);

}  // namespace trireme
