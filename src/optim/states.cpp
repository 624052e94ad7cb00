// Places of states in memory.
#include "optim/states.h"

#include "base/error.h"

namespace trireme {

States::States(const StateLayout& layout, const StateKinds& kinds)
    : layout_(layout), kinds_(kinds) {
  TRIREME_CHECK(static_cast<int>(kinds.moments.size()) == layout.buckets());
  const char* const names[state_arrays] = {"master weights", kinds.first_moment_name,
                                           "second moments"};
  for (const StateArray array :
       {StateArray::master, StateArray::first_moment, StateArray::second_moment}) {
    const int a = static_cast<int>(array);
    std::int64_t elements = 0;
    for (int bucket = 0; bucket < layout.buckets(); ++bucket) {
      const bool kept = array == StateArray::master ? kinds.masters : kinds.moments[bucket] >= a;
      begins_[a].push_back(kept ? elements : -1);
      if (kept) elements += layout.part(bucket);
    }
    memory_.add(names[a], elements * size_of(kinds.dtype(array)));
  }
}

void States::allocate(Device& device) {
  for (int a = 0; a < state_arrays; ++a)
    blocks_[a] = MemoryBlock(device, memory_.regions[a].bytes, memory_.regions[a].name);
}

bool States::has(StateArray array, int bucket) const {
  return begins_[static_cast<int>(array)][bucket] >= 0;
}

std::byte* States::at(StateArray array, const OwnedSlice& slice) const {
  const int a = static_cast<int>(array);
  TRIREME_CHECK(begins_[a][slice.bucket] >= 0);
  return blocks_[a].data() +
         (begins_[a][slice.bucket] + slice.offset) * size_of(kinds_.dtype(array));
}

}  // namespace trireme
