// Mapping between our tensors and those of another format: rows of one are rows of the other. One
// table serves both directions, so that a round trip is bitwise exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace trireme {

// A named tensor, viewed as a matrix with rows() rows of columns() elements: the last dimension is
// the columns (a vector has one column); `transposed` means that storage is transposed.
struct NamedTensor {
  std::string name;
  Shape shape;  // as stored
  bool transposed = false;
  bool zeros = false;  // of theirs alone: all of it is zero, and ours has nothing for it
  // Transposed: it is `matrices` of them, one after the other, whose rows follow each other. The
  // rows of each are `turns` equal parts, and stored are the first ones of all parts, then the
  // second ones.
  std::int16_t turns = 1;
  std::int32_t matrices = 1;

  std::int64_t columns() const;
  std::int64_t rows() const;
};

// Rows [ours_row, ours_row + rows) of ours are rows [theirs_row, ...) of theirs.
struct RowLink {
  std::size_t ours = 0, theirs = 0;  // indices into TensorMapping
  std::int64_t ours_row = 0, theirs_row = 0;
  std::int64_t rows = 0;
};

struct TensorMapping {
  std::vector<NamedTensor> ours, theirs;
  std::vector<RowLink> links;

  // Adds a tensor that is the same on both sides, except for its name and storage order.
  void add(const NamedTensor& our, const NamedTensor& their);
  // Adds a tensor without links, for tensors that are linked row by row.
  std::size_t add_ours(const NamedTensor& tensor);
  std::size_t add_theirs(const NamedTensor& tensor);
  void link(std::size_t our, std::int64_t our_row, std::size_t their, std::int64_t their_row,
            std::int64_t rows);
};

// Checks that the links cover every row of every tensor exactly once on both sides; a violation is
// a bug in the mapping's table.
void check_mapping(const TensorMapping& mapping);

// Total number of elements of all tensors.
std::int64_t count_elements(const std::vector<NamedTensor>& tensors);

// A part of a stored tensor viewed as a matrix: the last dimension is the columns.
struct Rectangle {
  std::int64_t row = 0, column = 0;
  std::int64_t rows = 0, columns = 0;
};

// Source of tensor data. Implementations document their thread safety.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // Element type of a tensor. Fails with exit code 2 if it is missing or has another
  // shape.
  virtual DType check(const std::string& name, const Shape& shape) const = 0;
  // Reads a part of a tensor, row-major, without conversion.
  virtual void read(const std::string& name, const Rectangle& part, std::byte* dst) = 0;
};

enum class Direction : std::uint8_t { to_ours, to_theirs };

// Assembles the tensors of one side from those of the other, a few rows at a time.
class TensorAssembler {
 public:
  // `mapping` and `source` must outlive this object. Fails with exit code 2 if the source lacks a
  // tensor or has another shape.
  TensorAssembler(const TensorMapping& mapping, Direction direction, TensorSource& source);

  const std::vector<NamedTensor>& targets() const { return targets_; }
  // Element type of a target: the common type of its sources; for zeros, the type of the first
  // target.
  DType dtype(std::size_t target) const { return dtypes_[target]; }

  // Writes elements [begin, end) of a target, in storage order, as type `dtype`. Thread-safe if the
  // source is. Buffers the whole rows around the range in the stored type.
  void produce(std::size_t target, DType dtype, std::int64_t begin, std::int64_t end,
               std::byte* dst) const;

 private:
  struct Link {
    const NamedTensor* source;
    std::int64_t target_row, source_row, rows, target_step, source_step;  // as stored
  };
  static void add_link(std::vector<Link>& links, Link link, const NamedTensor& target);
  void produce_rows(std::size_t target, std::int64_t first, std::int64_t last,
                    std::byte* dst) const;
  void place(const NamedTensor& target, const Link& link, std::int64_t first, std::int64_t last,
             std::byte* dst, int element) const;

  const std::vector<NamedTensor>& targets_;
  TensorSource& source_;
  std::vector<std::vector<Link>> links_;  // by target
  std::vector<DType> dtypes_;             // by target
};

}  // namespace trireme
