// Memory of the micro-batches in flight, shared by the stages of a rank:
// the schedule decides which stage uses which slot.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "runtime/memory.h"
#include "runtime/program.h"

namespace trireme {

// Regions of which each slot has a copy.
constexpr std::array<StageRegion, 4> slot_regions = {StageRegion::block_inputs, StageRegion::saved,
                                                     StageRegion::batch, StageRegion::results};

constexpr bool is_of_slot(StageRegion region) {
  return std::find(slot_regions.begin(), slot_regions.end(), region) != slot_regions.end();
}

class SlotMemory {
 public:
  explicit SlotMemory(int slots) : slots_(slots) {}

  int slots() const { return slots_; }
  // Grows a region of every slot to at least this many bytes; call before allocate().
  void fit(StageRegion region, std::int64_t bytes);
  // Bytes of one slot.
  std::int64_t bytes(StageRegion region) const { return parts_[index_of(region)].bytes; }
  // Plan of all slots, by region.
  MemoryPlan plan() const;
  void allocate(Device& device);
  // Address of a region of a slot; null if no stage has reserved any of it.
  std::byte* at(StageRegion region, int slot) const;

 private:
  struct Part {
    std::int64_t bytes = 0;  // per slot
    MemoryBlock block;
  };
  static std::size_t index_of(StageRegion region);

  int slots_;
  std::array<Part, slot_regions.size()> parts_;
};

// The name of a region in memory plans.
const char* name_of(StageRegion region);

}  // namespace trireme
