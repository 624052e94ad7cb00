// ZeRO 3 parameter offload: this rank's parts of the parameters, in a file or in host memory. Parts
// of a segment are prefetched before their gather; updated parts are written back asynchronously.
#pragma once

#include <memory>

#include "parallel/states/state_layout.h"
#include "parallel/states/transfer_store.h"

namespace trireme {

class ParameterStore {
 public:
  // Plans without allocating. `stage` and `layout` must outlive this object.
  ParameterStore(const Stage& stage, const StateLayout& layout, const OffloadOptions& where);

  // Size of two slots, each large enough for the parts of any segment.
  std::int64_t memory_bytes() const { return slots * slot_bytes_; }
  std::int64_t stored_bytes() const { return stored_bytes_; }
  void allocate(const MemoryRegion& region);

  // For passes: starts to read the parts of a segment unless they are present or in flight.
  // Segments two before and two after it must no longer be in use.
  void bring(int segment);
  // Returns the address of a bucket's part in the segment, waiting until it is present.
  std::byte* part(int segment, int bucket);

  // For the optimizer, bucket by bucket, while no pass runs: begin() returns the address at which
  // to build a bucket's part, at first zeros, and keep() starts to write it to the store.
  std::byte* begin(int bucket);
  void keep(int bucket);
  // Waits until everything has been written to the store.
  void finish();

  void set_trace(Trace* trace);

 private:
  // Segments alternate between slots in passes, and buckets in a step; -1: none.
  static constexpr int slots = 2;
  struct Slot {
    int segment = -1, bucket = -1;
    TransferStore::Ticket ticket = 0;
  };
  Slot& slot_of(int number) { return slots_[number % slots]; }
  std::byte* memory_of(int number) const {
    return in_flight_.data() + (number % slots) * slot_bytes_;
  }
  // Size in bytes of a part, in memory and in the store.
  std::int64_t room(int bucket) const;
  void settle(Slot& slot);

  const Stage& stage_;
  const StateLayout& layout_;
  OffloadOptions where_;
  std::vector<std::int64_t> places_;  // by bucket, in the store
  std::int64_t stored_bytes_ = 0, slot_bytes_ = 0;
  MemoryBlock in_flight_;
  Slot slots_[slots];
  std::unique_ptr<TransferStore> store_;  // destroyed before its memory
};

}  // namespace trireme
