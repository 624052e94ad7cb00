// The states of an optimiser: master weights and moments of what this rank owns, bucket by bucket.
#pragma once

#include <vector>

#include "parallel/state_layout.h"

namespace trireme {

// Which array of states.
enum class StateArray : std::uint8_t { master, first_moment, second_moment };
inline constexpr int state_arrays = 3;

constexpr StateArray moment_array(int which) {
  return which == 0 ? StateArray::first_moment : StateArray::second_moment;
}

// What is kept, by array.
struct StateKinds {
  std::vector<int> moments;  // by bucket: 1 or 2
  bool masters = true;       // false: the compute copies are the masters
  DType master_dtype = DType::f32, moment_dtype = DType::f32;
  const char* first_moment_name = "first moments";

  DType dtype(StateArray array) const {
    return array == StateArray::master ? master_dtype : moment_dtype;
  }
};

class States {
 public:
  // Plans, without allocating. The layout must outlive it.
  States(const StateLayout& layout, const StateKinds& kinds);

  const MemoryPlan& memory() const { return memory_; }
  void allocate(Device& device);

  const StateKinds& kinds() const { return kinds_; }
  // Whether an array has a bucket's states.
  bool has(StateArray array, int bucket) const;
  // Where the states of an owned slice begin.
  std::byte* at(StateArray array, const OwnedSlice& slice) const;

 private:
  const StateLayout& layout_;
  StateKinds kinds_;
  std::vector<std::int64_t> begins_[state_arrays];  // by bucket, in elements; -1: none
  MemoryPlan memory_;
  MemoryBlock blocks_[state_arrays];
};

}  // namespace trireme
