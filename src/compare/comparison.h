// Compares two checkpoints of any formats, tensor by tensor, in bounded memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/contents.h"
#include "tensors/difference.h"

namespace trireme {

struct CompareOptions {
  bool weights_only = false;  // ignores optimizer states and positions
  // A tensor that equals the other's, cast to a narrower type, counts as equal.
  bool rounded = false;
};

// A tensor that differs.
struct TensorPair {
  std::string name;
  // nullopt on a side that has no such tensor.
  std::optional<HeldTensor> a, b;
  // nullopt if not comparable: present on one side only, different shapes, or types that cannot be
  // compared.
  std::optional<TensorDifference> difference;
};

// A named value that differs; "" if a side does not have it.
struct ValuePair {
  std::string name, a, b;
};

struct Comparison {
  std::int64_t tensors = 0, elements = 0;  // compared, i.e. present on both sides
  std::int64_t equal = 0;                  // number of those that are equal
  std::int64_t rounded = 0;                // of those: only by CompareOptions::rounded
  // Incomparable tensors first, then in descending order of the largest difference.
  std::vector<TensorPair> differing;
  // The first differing tensor in forward order: weights first, then the states of the optimizer in
  // the same order. Null if none differs.
  const TensorPair* first() const;
  std::size_t first_position = 0;  // in `differing`

  std::vector<ValuePair> positions;  // of the runs, that differ
  std::vector<ValuePair> model;      // differing settings that change results
  // Other settings of two Trireme checkpoints. Not counted as differences, since a run may resume
  // on another layout.
  std::vector<ValuePair> settings;
  // Only weights were compared, because one side has nothing else.
  bool lacks_states = false;

  bool is_equal() const { return differing.empty() && positions.empty() && model.empty(); }
};

// Reads both sides piece by piece, a few dozen MB at a time.
Comparison compare(const Contents& a, const Contents& b, const CompareOptions& options);

}  // namespace trireme
