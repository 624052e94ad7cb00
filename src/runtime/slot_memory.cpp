// Slots of equal size, with one memory block per region.
#include "runtime/slot_memory.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {

const char* name_of(StageRegion region) {
  switch (region) {
    case StageRegion::parameters:
      return "parameters";
    case StageRegion::gradients:
      return "gradients";
    case StageRegion::block_inputs:
      return "block inputs";
    case StageRegion::saved:
      return "saved activations";
    case StageRegion::late_saved:
      return "saved for weight gradients";
    case StageRegion::activation_windows:
      return "activations in windows";
    case StageRegion::caches:
      return "key/value cache";
    case StageRegion::scratch:
      return "scratch of a layer";
    case StageRegion::activation_grads:
      return "gradients of activations";
    case StageRegion::batch:
      return "micro-batches";
    case StageRegion::results:
      return "results";
    case StageRegion::constants:
      return "tables";
    case StageRegion::count:
      break;
  }
  TRIREME_CHECK(!"not a region");
  return "";
}

std::size_t SlotMemory::index_of(StageRegion region) {
  const auto found = std::find(slot_regions.begin(), slot_regions.end(), region);
  TRIREME_CHECK(found != slot_regions.end());
  return static_cast<std::size_t>(found - slot_regions.begin());
}

void SlotMemory::fit(StageRegion region, std::int64_t bytes) {
  Part& part = parts_[index_of(region)];
  TRIREME_CHECK(bytes <= part.bytes || !part.block.data());
  part.bytes = std::max(part.bytes, bytes);
}

MemoryPlan SlotMemory::plan() const {
  MemoryPlan plan;
  for (const StageRegion region : slot_regions) plan.add(name_of(region), bytes(region) * slots_);
  return plan;
}

void SlotMemory::allocate(Device& device) {
  for (const StageRegion region : slot_regions) {
    Part& part = parts_[index_of(region)];
    part.block = MemoryBlock(device, part.bytes * slots_, name_of(region));
  }
}

std::byte* SlotMemory::at(StageRegion region, int slot) const {
  const Part& part = parts_[index_of(region)];
  TRIREME_CHECK(slot >= 0 && slot < slots_);
  return part.block.data() ? part.block.data() + slot * part.bytes : nullptr;
}

}  // namespace trireme
