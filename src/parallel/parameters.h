// The compute copies of a stage's parameters among data-parallel ranks: in full on every rank, or
// (ZeRO 3) a part on each, in memory or elsewhere, brought together for one segment at a time.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "parallel/groups.h"
#include "parallel/parameter_store.h"
#include "parallel/state_layout.h"

namespace trireme {

class Parameters {
 public:
  // Plans, without allocating. Stage and layout must outlive it. Parts that are kept elsewhere need
  // parameters that the layout has in windows.
  Parameters(Stage& stage, const StateLayout& layout, const OffloadOptions& offload = {});

  const MemoryPlan& memory() const { return memory_; }
  bool elsewhere() const { return store_ != nullptr; }
  // Bytes that parameters take in the store, if they are offloaded.
  std::int64_t stored_bytes() const { return store_ ? store_->stored_bytes() : 0; }
  // `groups` outlive this.
  void allocate(const Groups& groups);

  // This rank's part of a bucket, which the optimizer writes: all of it, bucket after bucket, where
  // parts are elsewhere.
  std::byte* part(int bucket);
  // The part was written: starts bringing it to the other ranks, or to where it is kept.
  void publish(int bucket);
  // Waits until all parts are everywhere (ZeRO 3: forgets what was gathered before).
  void finish();

  // Around segments, with ZeRO 3: waits for the segment's parameters and begins to fetch those of
  // the next one.
  void before(Pass pass, int segment);

  // Records what goes elsewhere and comes back; null: nothing.
  void set_trace(Trace* trace);

 private:
  struct Window {
    int segment = -1;
    std::vector<Work> works;
  };
  // Segments that a window has to hold when a pass reaches a segment: this one, the next one, and
  // the one after that; -1 for each that the pass does not read.
  std::array<int, 3> wanted(Pass pass, int segment) const;
  // Starts to read what a window lacks from where it is kept.
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
