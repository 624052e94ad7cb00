// Pieces consist of whole heads, as many as fit, because reordering moves rows within a head.
#include "formats/tensor_pieces.h"

#include <algorithm>
#include <vector>

namespace trireme {
namespace {

constexpr std::int64_t piece_elements = std::int64_t{4} << 20;

std::int64_t width_of(const Shape& shape) {
  return shape.rank() < 2 ? 1 : shape.back();
}

}  // namespace

std::int64_t rows_of(const Shape& shape) {
  const std::int64_t width = width_of(shape);
  return width == 0 ? 0 : shape.count() / width;
}

void for_each_piece(const TensorAssembler& assembler, std::size_t target, DType dtype,
                    const RowOrder& order, const std::function<void(const TensorPiece&)>& use) {
  for_each_piece(assembler, target, dtype, order, 0, rows_of(assembler.targets()[target].shape),
                 use);
}

void for_each_piece(const TensorAssembler& assembler, std::size_t target, DType dtype,
                    const RowOrder& order, std::int64_t begin, std::int64_t end,
                    const std::function<void(const TensorPiece&)>& use) {
  const std::int64_t width = width_of(assembler.targets()[target].shape);
  const std::int64_t unit = order.outer * order.inner * order.block;
  const std::int64_t step =
      std::max<std::int64_t>(1, piece_elements / std::max<std::int64_t>(1, width * unit)) * unit;
  const std::int64_t row_bytes = width * size_of(dtype);
  std::vector<std::byte> memory, ordered;
  for (std::int64_t row = begin; row < end; row += step) {
    const std::int64_t rows = std::min(end - row, step);
    memory.resize(static_cast<std::size_t>(rows * row_bytes));
    assembler.produce(target, dtype, row * width, (row + rows) * width, memory.data());
    if (unit > 1) {
      ordered.resize(memory.size());
      for (std::int64_t r = 0; r < rows; ++r) {
        std::copy_n(memory.data() + r * row_bytes, row_bytes,
                    ordered.data() + order.stored(r) * row_bytes);
      }
      memory.swap(ordered);
    }
    use({row, rows, memory});
  }
}

}  // namespace trireme
