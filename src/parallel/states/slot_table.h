// Assigns slots to the micro-batches in flight of a rank, over all its stages together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"

namespace trireme {

// Assigns the lowest free slot: the number of slots never exceeds the peak number of micro-batches
// in flight, in whatever order stages finish them.
class SlotTable {
 public:
  explicit SlotTable(int slots) : holders_(static_cast<std::size_t>(slots)) {}

  int take(int chunk, std::int64_t micro_batch) {
    const int slot = find({});
    holders_[static_cast<std::size_t>(slot)] = {chunk, micro_batch};
    return slot;
  }
  // Returns the slot of a micro-batch in flight.
  int of(int chunk, std::int64_t micro_batch) const { return find({chunk, micro_batch}); }
  void release(int chunk, std::int64_t micro_batch) {
    holders_[static_cast<std::size_t>(of(chunk, micro_batch))] = {};
  }
  int taken() const {
    return static_cast<int>(std::count_if(holders_.begin(), holders_.end(),
                                          [](const Holder& holder) { return holder.chunk >= 0; }));
  }
  void clear() { std::fill(holders_.begin(), holders_.end(), Holder{}); }

 private:
  struct Holder {
    int chunk = -1;  // -1: free
    std::int64_t micro_batch = 0;
    bool operator==(const Holder&) const = default;
  };
  int find(const Holder& holder) const {
    const auto found = std::find(holders_.begin(), holders_.end(), holder);
    TRIREME_CHECK(found != holders_.end());
    return static_cast<int>(found - holders_.begin());
  }

  std::vector<Holder> holders_;
};

}  // namespace trireme
