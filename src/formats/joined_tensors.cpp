// Reads rectangles of a whole tensor from its parts.
#include "formats/joined_tensors.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "tensors/cast.h"

namespace trireme {
namespace {

std::string described(const TensorPart& part) {
  return fmt::format("'{}' {} {} of '{}'", part.entry->name, part.entry->type,
                     shape_text(part.entry->shape), part.file->name());
}

void require_like_first(const TensorPart& first, const TensorPart& other) {
  if (first.entry->type == other.entry->type && first.entry->shape == other.entry->shape) return;
  fail_input("{} should match {}: the two are parts of one tensor", described(other),
             described(first));
}

JoinedTensor join(const std::string& name, RankParts parts, bool by_rows) {
  JoinedTensor joined{name, parts[0].entry->shape, std::move(parts)};
  const WeightEntry& first = *joined.parts[0].entry;
  const auto count = static_cast<std::int64_t>(joined.parts.size());
  for (std::size_t i = 0; i < joined.parts.size(); ++i) {
    TensorPart& part = joined.parts[i];
    require_like_first(joined.parts[0], part);
    (by_rows ? part.row : part.column) =
        static_cast<std::int64_t>(i) * (by_rows ? first.rows() : first.columns());
  }
  if (!joined.shape.empty()) (by_rows ? joined.shape.front() : joined.shape.back()) *= count;
  return joined;
}

// Rows [row, row + rows) of a matrix with `columns` columns, stored contiguously at dst.
struct Destination {
  std::int64_t row, rows, column, columns;
  std::byte* dst;
};

// Reads the requested region of one part.
void read_part(const TensorPart& part, const Destination& to, std::int64_t element) {
  const std::int64_t width = part.entry->columns();
  const std::int64_t first = std::max(to.row, part.row);
  const std::int64_t last = std::min(to.row + to.rows, part.row + part.entry->rows());
  const std::int64_t left = std::max(to.column, part.column);
  const std::int64_t right = std::min(to.column + to.columns, part.column + width);
  if (first >= last || left >= right) return;
  const std::int64_t begin = (first - part.row) * width, end = (last - part.row) * width;
  if (right - left == width && width == to.columns) {
    part.file->read(*part.entry, begin, end, to.dst + (first - to.row) * width * element);
    return;
  }
  const auto rows = std::make_unique_for_overwrite<std::byte[]>(
      static_cast<std::size_t>((end - begin) * element));
  part.file->read(*part.entry, begin, end, rows.get());
  for (std::int64_t row = first; row < last; ++row) {
    std::memcpy(to.dst + ((row - to.row) * to.columns + left - to.column) * element,
                rows.get() + ((row - first) * width + left - part.column) * element,
                static_cast<std::size_t>((right - left) * element));
  }
}

// A tensor's elements, read in whole rows.
ElementSource elements_of(JoinedTensors& from, const JoinedTensor& tensor, std::int64_t columns) {
  return {*tensor.parts[0].entry->dtype,
          [&, columns](std::int64_t begin, std::int64_t end, std::byte* dst) {
            from.read(tensor.name, {begin / columns, 0, (end - begin) / columns, columns}, dst);
          }};
}

bool agree(JoinedTensors& tensors, const JoinedTensor& tensor, JoinedTensors& others,
           const JoinedTensor& exact) {
  if (tensor.shape != exact.shape || !tensor.parts[0].entry->dtype || !exact.parts[0].entry->dtype)
    return false;
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  const std::int64_t columns = tensor.shape.size() < 2 ? 1 : tensor.shape.back();
  return columns == 0 || same_when_cast(elements_of(tensors, tensor, columns),
                                        elements_of(others, exact, columns), count, columns);
}

}  // namespace

std::int64_t RowOrder::stored(std::int64_t row) const {
  const std::int64_t span = outer * inner * block, in_span = row % span;
  const std::int64_t i = in_span / (outer * block), o = in_span / block % outer;
  return row - in_span + (o * inner + i) * block + in_span % block;
}

std::int64_t RowOrder::run(std::int64_t row, std::int64_t end) const {
  if (outer == 1 || inner == 1) return end - row;
  return std::min(end - row, block - row % block);
}

RankParts parts_in(const std::vector<const WeightFile*>& ranks, const std::string& name) {
  RankParts parts;
  for (const WeightFile* rank : ranks) {
    const WeightEntry* part = rank->find(name);
    if (!part) fail_input("'{}' lacks the tensor '{}'", rank->name(), name);
    parts.push_back({rank, part});
  }
  return parts;
}

void require_no_other_tensors(const std::vector<const WeightFile*>& ranks) {
  for (const WeightFile* rank : ranks) {
    for (const WeightEntry& entry : rank->tensors()) {
      if (ranks[0]->find(entry.name)) continue;
      fail_input("'{}' contains the tensor '{}', but '{}' does not", rank->name(), entry.name,
                 ranks[0]->name());
    }
  }
}

JoinedTensor join_rows(const std::string& name, RankParts parts) {
  return join(name, std::move(parts), true);
}

JoinedTensor join_columns(const std::string& name, RankParts parts) {
  return join(name, std::move(parts), false);
}

JoinedTensor join_copies(const std::string& name, const RankParts& parts) {
  for (const TensorPart& part : parts) {
    if (&part != &parts[0]) require_copy(parts[0], part);
  }
  return {name, parts[0].entry->shape, {parts[0]}};
}

void require_copy(const TensorPart& tensor, const TensorPart& copy) {
  if (same_weights(*tensor.file, *tensor.entry, *copy.file, *copy.entry)) return;
  fail_input(
      "{} should be equal to {}, but differs: the files are from different steps of a run, or from "
      "different runs",
      described(copy), described(tensor));
}

void require_rounded_from(const TensorPart& saved, const TensorPart& exact) {
  const WeightEntry &to = *saved.entry, &from = *exact.entry;
  if (is_rounded_from(*saved.file, to, *exact.file, from)) return;
  fail_input(
      "{} should be the rounded value of its fp32 copy in '{}' {}, but differs: the files are from "
      "different steps of a run, or from different runs",
      described(saved), exact.file->name(), shape_text(from.shape));
}

const WeightFile& JoinedTensors::keep(std::unique_ptr<WeightFile> file) {
  files_.push_back(std::move(file));
  return *files_.back();
}

void JoinedTensors::add(JoinedTensor tensor) {
  const auto [at, is_new] = tensors_.emplace(tensor.name, tensor);
  if (is_new) return;
  fail_input("{} and {} are the same tensor, '{}'", described(tensor.parts[0]),
             described(at->second.parts[0]), tensor.name);
}

const JoinedTensor* JoinedTensors::find(const std::string& name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

const JoinedTensor& JoinedTensors::at(const std::string& name) const {
  const JoinedTensor* tensor = find(name);
  if (!tensor) {
    fail_input("'{}' has no tensor for '{}', which a model with this {} has", where_, name,
               config_);
  }
  return *tensor;
}

void JoinedTensors::require_use_of_all(const TensorMapping& mapping) const {
  std::set<std::string> wanted;
  for (const NamedTensor& tensor : mapping.theirs) wanted.insert(tensor.name);
  for (const auto& [name, tensor] : tensors_) {
    if (wanted.contains(name)) continue;
    fail_input(
        "{} is present, which a model with this {} does not have; tensors are never dropped "
        "silently",
        described(tensor.parts[0]), config_);
  }
}

DType JoinedTensors::check(const std::string& name, const Shape& shape) const {
  const JoinedTensor& tensor = at(name);
  const WeightEntry& first = *tensor.parts[0].entry;
  std::vector<std::int64_t> expected(shape.begin(), shape.end());
  const bool cut = tensor.padded && expected.size() == tensor.shape.size() && !expected.empty() &&
                   expected[0] <= tensor.shape[0];
  if (cut) expected[0] = tensor.shape[0];
  if (expected != tensor.shape) {
    const std::string parts =
        tensor.parts.size() == 1 ? "" : fmt::format(" in {} parts", tensor.parts.size());
    fail_input("'{}': tensor '{}' has the shape {}{}, expected {} from its {}", where_, first.name,
               shape_text(tensor.shape), parts, shape.text(), config_);
  }
  if (!first.dtype || !can_cast(*first.dtype, DType::f32)) {
    fail_input("'{}': tensor '{}' is {}; supported are F64, F32, BF16 and F16",
               tensor.parts[0].file->name(), first.name, first.type);
  }
  return *first.dtype;
}

void JoinedTensors::read(const std::string& name, const Rectangle& part, std::byte* dst) {
  const JoinedTensor& tensor = at(name);
  const std::int64_t element = size_of(*tensor.parts[0].entry->dtype);
  const std::int64_t end = part.row + part.rows;
  for (std::int64_t row = part.row; row < end;) {
    const std::int64_t chosen = tensor.order.stored(row);
    const std::int64_t rows = tensor.choice.run(chosen, chosen + tensor.order.run(row, end));
    const Destination to{tensor.choice.stored(chosen), rows, part.column, part.columns,
                         dst + (row - part.row) * part.columns * element};
    for (const TensorPart& from : tensor.parts) read_part(from, to, element);
    row += rows;
  }
}

bool same_elements(JoinedTensors& tensors, const std::string& name, JoinedTensors& others,
                   const std::string& other) {
  const JoinedTensor &one = *tensors.find(name), &two = *others.find(other);
  return one.parts[0].entry->type == two.parts[0].entry->type && agree(tensors, one, others, two);
}

bool is_rounded_from(JoinedTensors& tensors, JoinedTensors& exact, const std::string& name) {
  const JoinedTensor *rounded = tensors.find(name), *whole = exact.find(name);
  return rounded && whole && agree(tensors, *rounded, exact, *whole);
}

}  // namespace trireme
