// Two checkpoints of any formats, compared tensor by tensor in bounded memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/contents.h"
#include "tensors/difference.h"

namespace trireme {

struct CompareOptions {
  bool weights_only = false;  // no states of optimizers, no positions
  // A tensor that is the other's, cast to a narrower type, counts as equal.
  bool rounded = false;
};

// A tensor that differs.
struct TensorPair {
  std::string name;
  // None on the side that has no such tensor.
  std::optional<HeldTensor> a, b;
  // None where there is nothing to compare: on one side only, of other shapes, or of types that
  // cannot be compared.
  std::optional<TensorDifference> difference;
};

// A named value that differs; "" where a side does not have it.
struct ValuePair {
  std::string name, a, b;
};

struct Comparison {
  std::int64_t tensors = 0, elements = 0;  // that both sides have and that were compared
  std::int64_t equal = 0;                  // of these tensors, that do not differ
  std::int64_t rounded = 0;                // of those: equal by CompareOptions::rounded
  // By the largest difference, largest first; before all others what cannot be compared.
  std::vector<TensorPair> differing;
  // The one of these that comes first: weights in the order of the forward pass, then the states of
  // the optimizer in that order. Null: none differs.
  const TensorPair* first() const;
  std::size_t first_position = 0;  // in `differing`

  std::vector<ValuePair> positions;  // of the runs, that differ
  std::vector<ValuePair> model;      // settings that differ and change results
  // Further settings of two checkpoints of ours. They are no difference of what is held: a run may
  // continue on another layout.
  std::vector<ValuePair> settings;
  // Only weights were compared, since one side holds nothing else.
  bool lacks_states = false;

  bool is_equal() const { return differing.empty() && positions.empty() && model.empty(); }
};

// Reads both sides piece by piece, a few dozen MB at a time.
Comparison compare(const Contents& a, const Contents& b, const CompareOptions& options);

}  // namespace trireme
