// The values of a rank in a training step, condensed into sums that do not depend on how tensors
// are split: the sums of all ranks of a layout add up to those of a single rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace trireme {

// Sums over some elements of a tensor.
struct ValueSums {
  std::int64_t elements = 0;
  std::uint64_t hash = 0;  // of the bits, modulo 2^64
  double sum = 0, squares = 0;

  void operator+=(const ValueSums& other) {
    elements += other.elements;
    hash += other.hash;
    sum += other.sum;
    squares += other.squares;
  }
  // Adds `count` elements of type `dtype`. Their hashes depend on their indices, which begin at
  // `first`, unless it is negative.
  void add(DType dtype, const std::byte* elements, std::int64_t count, std::int64_t first);
};

// A tensor of a step that every layout computes.
struct StepPlace {
  enum class Kind : std::uint8_t {
    parameter,  // as the passes read it
    op,         // an output of an op
    gradient,   // summed over all ranks and micro-batches
    state,      // a weight or moment after the step
  };
  Kind kind = Kind::op;
  std::string op;
  std::int32_t layer = -1;  // of the op; -1 outside blocks
  bool is_head = false, is_forward = true;
  std::string parameter;  // the parameter itself, or what the op reads
  std::string summed;     // over which ranks the layout sums the value; "" if over none

  // "linear of layer 1 (forward), which reads layers.1.mlp.up.weight"
  std::string text() const;
};

// A tensor is divided into at most this many parts of adjacent rows, each with its own sums.
inline constexpr std::int64_t most_parts = 64;
inline std::int64_t parts_of(std::int64_t rows) {
  return rows < most_parts ? rows : most_parts;
}

class StepValues {
 public:
  struct Entry {
    StepPlace place;
    std::int64_t columns = 0;  // of an op's output, on this rank
    std::vector<ValueSums> parts;
  };

  // The entry of a key, with parts for a tensor of `rows` rows on all ranks together.
  Entry& at(const std::string& key, const StepPlace& place, std::int64_t rows);
  const Entry* find(const std::string& key) const;
  // Keys in the order of their first values.
  const std::vector<std::string>& order() const { return order_; }

 private:
  std::map<std::string, Entry> entries_;
  std::vector<std::string> order_;
};

}  // namespace trireme
