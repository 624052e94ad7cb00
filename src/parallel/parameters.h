// The compute copies of a stage's parameters across data-parallel ranks: replicated, or (ZeRO 3)
// sharded, in memory or offloaded, and gathered one segment at a time.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "parallel/groups.h"
#include "parallel/states/parameter_store.h"
#include "parallel/states/state_layout.h"

namespace trireme {

class Parameters {
 public:
  // Plans without allocating. `stage` and `layout` must outlive this object. Offloaded parts
  // require a layout with parameters in windows.
  Parameters(Stage& stage, const StateLayout& layout, const OffloadOptions& offload = {});

  const MemoryPlan& memory() const { return memory_; }
  bool elsewhere() const { return store_ != nullptr; }
  // Bytes of parameters in the offload store, if any.
  std::int64_t stored_bytes() const { return store_ ? store_->stored_bytes() : 0; }
  // `groups` must outlive this object.
  void allocate(const Groups& groups);

  // Returns this rank's part of a bucket for the optimizer to write: with offload, all of it, and
  // bucket by bucket.
  std::byte* part(int bucket);
  // Call after writing the part: starts to gather it on the other ranks, or to store it.
  void publish(int bucket);
  // Waits until every rank has all parts (ZeRO 3: discards previously gathered parameters).
  void finish();

  // Call before and after segments with ZeRO 3: waits for the segment's parameters and starts to
  // prefetch those of the next segment.
  void before(Pass pass, int segment);

  // Records offload transfers; null: no trace.
  void set_trace(Trace* trace);

 private:
  struct Window {
    int segment = -1;
    std::vector<Work> works;
  };
  // Segments that the windows must hold when a pass reaches a segment: this one, the next one, and
  // the one after that; -1 for each that the pass does not read.
  std::array<int, 3> wanted(Pass pass, int segment) const;
  // Starts to read the missing contents of a window from the store.
  void bring(int segment);
  void fetch(int segment);
  static void settle(Window& window);
  // The ranks that share a bucket.
  Communicator& gather(int bucket) const;

  Stage& stage_;
  const StateLayout& layout_;
  DType dtype_;
  MemoryPlan memory_;
  MemoryBlock parts_;
  std::unique_ptr<ParameterStore> store_;  // null: parts_ has them
  const Groups* groups_ = nullptr;
  std::vector<Work> published_;
  Window windows_[2];
};

}  // namespace trireme
