// Finds rows by links, reads them as rectangles and transposes if storage orders differ.
#include "tensors/mapping.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "tensors/cast.h"

namespace trireme {
namespace {

// dst[j][i] = src[i][j] for elements of `element` bytes.
void transpose(const std::byte* src, std::int64_t rows, std::int64_t columns, std::byte* dst,
               std::int64_t dst_stride, int element) {
  constexpr std::int64_t tile = 32;
  for (std::int64_t row = 0; row < rows; row += tile) {
    for (std::int64_t column = 0; column < columns; column += tile) {
      for (std::int64_t i = row; i < std::min(rows, row + tile); ++i) {
        for (std::int64_t j = column; j < std::min(columns, column + tile); ++j) {
          std::memcpy(dst + (j * dst_stride + i) * element, src + (i * columns + j) * element,
                      static_cast<std::size_t>(element));
        }
      }
    }
  }
}

void check_side(const std::vector<NamedTensor>& tensors, const std::vector<RowLink>& links,
                std::size_t RowLink::*tensor, std::int64_t RowLink::*row) {
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> ranges(tensors.size());
  for (const RowLink& link : links) ranges[link.*tensor].emplace_back(link.*row, link.rows);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::ranges::sort(ranges[i]);
    std::int64_t next = 0;
    for (const auto& [begin, rows] : ranges[i]) {
      TRIREME_CHECK(begin == next);
      next = begin + rows;
    }
    TRIREME_CHECK(next == (tensors[i].zeros ? 0 : tensors[i].rows()));
  }
}

}  // namespace

std::int64_t NamedTensor::columns() const {
  if (shape.rank() < 2) return 1;
  return transposed ? shape[0] : shape.back();
}

std::int64_t NamedTensor::rows() const {
  TRIREME_CHECK(!transposed || shape.rank() == 2);
  return columns() == 0 ? 0 : shape.count() / columns();
}

std::size_t TensorMapping::add_ours(const NamedTensor& tensor) {
  ours.push_back(tensor);
  return ours.size() - 1;
}

std::size_t TensorMapping::add_theirs(const NamedTensor& tensor) {
  theirs.push_back(tensor);
  return theirs.size() - 1;
}

void TensorMapping::link(std::size_t our, std::int64_t our_row, std::size_t their,
                         std::int64_t their_row, std::int64_t rows) {
  TRIREME_CHECK(ours[our].columns() == theirs[their].columns());
  links.push_back({our, their, our_row, their_row, rows});
}

void TensorMapping::add(const NamedTensor& our, const NamedTensor& their) {
  link(add_ours(our), 0, add_theirs(their), 0, our.rows());
}

std::int64_t count_elements(const std::vector<NamedTensor>& tensors) {
  std::int64_t elements = 0;
  for (const NamedTensor& tensor : tensors) elements += tensor.shape.count();
  return elements;
}

void check_mapping(const TensorMapping& mapping) {
  check_side(mapping.ours, mapping.links, &RowLink::ours, &RowLink::ours_row);
  check_side(mapping.theirs, mapping.links, &RowLink::theirs, &RowLink::theirs_row);
}

TensorAssembler::TensorAssembler(const TensorMapping& mapping, Direction direction,
                                 TensorSource& source)
    : targets_(direction == Direction::to_ours ? mapping.ours : mapping.theirs),
      source_(source),
      links_(targets_.size()),
      dtypes_(targets_.size()) {
  const bool to_ours = direction == Direction::to_ours;
  for (const RowLink& link : mapping.links) {
    const NamedTensor& from = to_ours ? mapping.theirs[link.theirs] : mapping.ours[link.ours];
    links_[to_ours ? link.ours : link.theirs].push_back(
        {&from, to_ours ? link.ours_row : link.theirs_row,
         to_ours ? link.theirs_row : link.ours_row, link.rows});
  }
  for (std::size_t target = 0; target < targets_.size(); ++target) {
    bool first = true;
    if (targets_[target].zeros) dtypes_[target] = dtypes_[0];
    for (const Link& link : links_[target]) {
      const DType dtype = source.check(link.source->name, link.source->shape);
      if (!first && dtype != dtypes_[target]) {
        fail_input("tensor '{}' is {}, but others that '{}' is made of are {}", link.source->name,
                   name_of(dtype), targets_[target].name, name_of(dtypes_[target]));
      }
      dtypes_[target] = dtype;
      first = false;
    }
  }
}

void TensorAssembler::produce(std::size_t target, DType dtype, std::int64_t begin, std::int64_t end,
                              std::byte* dst) const {
  const NamedTensor& tensor = targets_[target];
  const std::int64_t width = tensor.transposed ? tensor.rows() : tensor.columns();
  const std::int64_t first = begin / width, last = (end + width - 1) / width;
  const int element = size_of(dtypes_[target]);
  const auto rows = std::make_unique_for_overwrite<std::byte[]>(
      static_cast<std::size_t>((last - first) * width * element));
  produce_rows(target, first, last, rows.get());
  cast(dtypes_[target], rows.get() + (begin - first * width) * element, dtype, dst, end - begin);
}

// Produces stored rows [first, last): rows of the target's matrix, or columns if transposed.
void TensorAssembler::produce_rows(std::size_t target, std::int64_t first, std::int64_t last,
                                   std::byte* dst) const {
  const NamedTensor& tensor = targets_[target];
  if (tensor.zeros) {
    std::memset(
        dst, 0,
        static_cast<std::size_t>((last - first) * tensor.columns() * size_of(dtypes_[target])));
  }
  for (const Link& link : links_[target]) {
    place(targets_[target], link, first, last, dst, size_of(dtypes_[target]));
  }
}

void TensorAssembler::place(const NamedTensor& target, const Link& link, std::int64_t first,
                            std::int64_t last, std::byte* dst, int element) const {
  // The requested rows and columns of the link, in the matrices' own orientation.
  std::int64_t row = link.target_row, rows = link.rows, column = 0, columns = target.columns();
  if (target.transposed) {
    column = first;
    columns = last - first;
  } else {
    row = std::max(row, first);
    rows = std::min(link.target_row + link.rows, last) - row;
  }
  if (rows <= 0 || columns <= 0) return;
  const std::int64_t source_row = link.source_row + row - link.target_row;

  const NamedTensor& from = *link.source;
  const Rectangle part = from.transposed ? Rectangle{column, source_row, columns, rows}
                                         : Rectangle{source_row, column, rows, columns};
  const auto piece = std::make_unique_for_overwrite<std::byte[]>(
      static_cast<std::size_t>(rows * columns * element));
  source_.read(from.name, part, piece.get());

  // Start of the piece in dst, and its stored row stride.
  const std::int64_t stride = target.transposed ? target.rows() : target.columns();
  std::byte* begin = dst + (target.transposed ? row : (row - first) * stride) * element;
  if (from.transposed != target.transposed) {
    transpose(piece.get(), part.rows, part.columns, begin, stride, element);
    return;
  }
  for (std::int64_t i = 0; i < part.rows; ++i) {
    std::memcpy(begin + i * stride * element, piece.get() + i * part.columns * element,
                static_cast<std::size_t>(part.columns * element));
  }
}

}  // namespace trireme
