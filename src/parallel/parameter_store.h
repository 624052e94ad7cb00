// This rank's parts of parameters in a file or in the memory of a GPU's host (ZeRO 3): those of a
// segment are read ahead of their gather, and those that the optimizer makes are written behind it.
#pragma once

#include <memory>

#include "parallel/state_layout.h"
#include "parallel/transfer_store.h"

namespace trireme {

class ParameterStore {
 public:
  // Plans, without allocating. `stage` and `layout` must outlive it.
  ParameterStore(const Stage& stage, const StateLayout& layout, const OffloadOptions& where);

  // Size of two slots, each with room for the parts of any segment.
  std::int64_t memory_bytes() const { return slots * slot_bytes_; }
  std::int64_t stored_bytes() const { return stored_bytes_; }
  void allocate(const MemoryRegion& region);

  // For passes. Starts to read the parts of a segment unless they are present or in flight; the
  // segments two before and two after it must not be read any more.
  void bring(int segment);
  // Address of the part of one of the segment's buckets, once it is present.
  std::byte* part(int segment, int bucket);

  // For the optimizer, bucket after bucket, while no pass runs. Where the part of a bucket is made,
  // zeros at first, and the end of that.
  std::byte* begin(int bucket);
  void keep(int bucket);
  // Everything is in the store.
  void finish();

  void set_trace(Trace* trace);

 private:
  // Segments take turns with slots in passes, and buckets in a step; -1: none.
  static constexpr int slots = 2;
  struct Slot {
    int segment = -1, bucket = -1;
    TransferStore::Ticket ticket = 0;
  };
  Slot& slot_of(int number) { return slots_[number % slots]; }
  std::byte* memory_of(int number) const {
    return in_flight_.data() + (number % slots) * slot_bytes_;
  }
  // Bytes of a part in memory and in the store.
  std::int64_t room(int bucket) const;
  void settle(Slot& slot);

  const Stage& stage_;
  const StateLayout& layout_;
  OffloadOptions where_;
  std::vector<std::int64_t> places_;  // by bucket, in the store
  std::int64_t stored_bytes_ = 0, slot_bytes_ = 0;
  MemoryBlock in_flight_;
  Slot slots_[slots];
  std::unique_ptr<TransferStore> store_;  // before its memory goes
};

}  // namespace trireme
