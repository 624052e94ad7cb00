// The compute copies of a stage's parameters among data-parallel ranks: in full on every rank, or
// (ZeRO 3) a part on each, brought together for one segment at a time.
#pragma once

#include <array>
#include <vector>

#include "parallel/groups.h"
#include "parallel/state_layout.h"

namespace trireme {

class Parameters {
 public:
  // Plans, without allocating. Both must outlive it.
  Parameters(Stage& stage, const StateLayout& layout);

  const MemoryPlan& memory() const { return memory_; }
  // `groups` outlive this.
  void allocate(const Groups& groups);

  // This rank's part of a bucket, which the optimiser writes.
  std::byte* part(int bucket) const;
  // The part was written: starts bringing it to the other ranks.
  void publish(int bucket);
  // Waits until all parts are everywhere (ZeRO 3: forgets what was gathered before).
  void finish();

  // Around segments, with ZeRO 3: waits for the segment's parameters and begins to fetch those of
  // the next one.
  void before(Pass pass, int segment);

 private:
  struct Window {
    int segment = -1;
    std::vector<Work> works;
  };
  // What a window has to hold when a pass reaches a segment: the segment's parameters, and soon
  // those of the next one; -1 for each that the pass does not read.
  std::array<int, 2> wanted(Pass pass, int segment) const;
  void fetch(int segment);
  // The ranks that share a bucket.
  Communicator& gather(int bucket) const;

  Stage& stage_;
  const StateLayout& layout_;
  DType dtype_;
  MemoryPlan memory_;
  MemoryBlock parts_;
  const Groups* groups_ = nullptr;
  std::vector<Work> published_;
  Window windows_[2];
};

}  // namespace trireme
