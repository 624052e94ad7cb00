// Finds rows by links, reads them as rectangles and transposes if storage orders differ.
#include "tensors/mapping.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"
#include "tensors/cast.h"

namespace trireme {
namespace {

// Distances, in elements, between the rows and between the columns of a matrix.
struct Strides {
  std::int64_t row, column;
};

// dst[j][i] = src[i][j] for elements of `element` bytes.
void transpose(const std::byte* src, const Strides& from, std::int64_t rows, std::int64_t columns,
               std::byte* dst, const Strides& to, int element) {
  constexpr std::int64_t tile = 32;
  for (std::int64_t row = 0; row < rows; row += tile) {
    for (std::int64_t column = 0; column < columns; column += tile) {
      for (std::int64_t i = row; i < std::min(rows, row + tile); ++i) {
        for (std::int64_t j = column; j < std::min(columns, column + tile); ++j) {
          std::memcpy(dst + (j * to.row + i * to.column) * element,
                      src + (i * from.row + j * from.column) * element,
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
  return transposed ? shape.count() / shape.back() / matrices : shape.back();
}

std::int64_t NamedTensor::rows() const {
  TRIREME_CHECK(transposed ? shape.rank() >= 2 : matrices == 1);
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
    const std::size_t target = to_ours ? link.ours : link.theirs;
    add_link(links_[target],
             {&from, to_ours ? link.ours_row : link.theirs_row,
              to_ours ? link.theirs_row : link.ours_row, link.rows, 1, 1},
             targets_[target]);
  }
  for (std::size_t target = 0; target < targets_.size(); ++target) {
    bool first = true;
    if (targets_[target].zeros) dtypes_[target] = dtypes_[0];
    for (const Link& link : links_[target]) {
      const DType dtype = source.check(link.source->name, link.source->shape);
      if (!first && dtype != dtypes_[target]) {
        fail_input("tensor '{}' is {}, but other parts of '{}' are {}", link.source->name,
                   name_of(dtype), targets_[target].name, name_of(dtypes_[target]));
      }
      dtypes_[target] = dtype;
      first = false;
    }
  }
}

// Cut where a matrix of either side ends, and a part of its rows that take turns.
void TensorAssembler::add_link(std::vector<Link>& links, Link link, const NamedTensor& target) {
  const NamedTensor& source = *link.source;
  const auto has_several = [](const NamedTensor& tensor) {
    return tensor.matrices > 1 || tensor.turns > 1;
  };
  if (!has_several(source) && !has_several(target)) return links.push_back(link);
  TRIREME_CHECK(!has_several(source) || !has_several(target));
  const bool of_source = has_several(source);
  const NamedTensor& tensor = of_source ? source : target;
  const std::int64_t out = tensor.shape.back(), part = out / tensor.turns;
  std::int64_t& row = of_source ? link.source_row : link.target_row;
  std::int64_t& other = of_source ? link.target_row : link.source_row;
  std::int64_t& step = of_source ? link.source_step : link.target_step;
  step = tensor.turns;
  for (std::int64_t at = row, left = link.rows; left > 0;) {
    const std::int64_t within = at % out, place = within % part;
    link.rows = std::min(left, part - place);
    row = at - within + place * tensor.turns + within / part;
    links.push_back(link);
    at += link.rows;
    other += link.rows;
    left -= link.rows;
  }
}

void TensorAssembler::produce(std::size_t target, DType dtype, std::int64_t begin, std::int64_t end,
                              std::byte* dst) const {
  const NamedTensor& tensor = targets_[target];
  const std::int64_t width = tensor.transposed ? tensor.shape.back() : tensor.columns();
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
  // The wanted rows, counted in the link, and columns, in the matrices' own orientation.
  std::int64_t row = 0, end_row = link.rows, column = 0, end_column = target.columns();
  std::int64_t stored = 0;  // in dst: where row 0 of the link and the first column lie
  Strides to{1, 1};
  if (target.transposed) {
    const std::int64_t out = target.shape.back();
    const std::int64_t before = link.target_row / out * target.columns();
    column = std::max<std::int64_t>(0, first - before);
    end_column = std::min(end_column, last - before);
    stored = (before + column - first) * out + link.target_row % out;
    to = {out, link.target_step};
  } else {
    const auto link_row = [&](std::int64_t target_row) {
      const std::int64_t after = target_row - link.target_row, step = link.target_step;
      return std::clamp<std::int64_t>(after <= 0 ? 0 : (after + step - 1) / step, 0, link.rows);
    };
    row = link_row(first);
    end_row = link_row(last);
    stored = (link.target_row - first) * target.columns();
    to = {link.target_step * target.columns(), 1};
  }
  const std::int64_t rows = end_row - row, columns = end_column - column;
  if (rows <= 0 || columns <= 0) return;

  const NamedTensor& from = *link.source;
  const std::int64_t source_row = link.source_row + row * link.source_step;
  const std::int64_t span = (rows - 1) * link.source_step + 1;
  Rectangle part{source_row, column, span, columns};
  if (from.transposed) {
    const std::int64_t out = from.shape.back();
    part = {source_row / out * from.columns() + column, source_row % out, columns, span};
  }
  const auto piece = std::make_unique_for_overwrite<std::byte[]>(
      static_cast<std::size_t>(span * columns * element));
  source_.read(from.name, part, piece.get());

  std::byte* const begin =
      dst + (stored + row * (target.transposed ? to.column : to.row)) * element;
  if (from.transposed && target.transposed) {
    TRIREME_CHECK(link.source_step == 1 && link.target_step == 1);
    for (std::int64_t i = 0; i < columns; ++i)
      std::memcpy(begin + i * to.row * element, piece.get() + i * rows * element,
                  static_cast<std::size_t>(rows * element));
  } else if (from.transposed) {
    transpose(piece.get(), {span, link.source_step}, columns, rows, begin, to, element);
  } else if (target.transposed) {
    transpose(piece.get(), {link.source_step * columns, 1}, rows, columns, begin, to, element);
  } else {
    for (std::int64_t i = 0; i < rows; ++i)
      std::memcpy(begin + i * to.row * element,
                  piece.get() + i * link.source_step * columns * element,
                  static_cast<std::size_t>(columns * element));
  }
}

}  // namespace trireme
