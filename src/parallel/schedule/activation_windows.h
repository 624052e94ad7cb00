// Activation offloading through windows (StageOptions::windowed_layers): activations are stored
// after a layer's forward pass and fetched before its backward pass, overlapped with other layers.
#pragma once

#include <memory>
#include <vector>

#include "parallel/groups.h"
#include "parallel/states/transfer_store.h"
#include "parallel/trace.h"
#include "runtime/stage.h"

namespace trireme {

// Backing store of a stage's windows. A window has one transfer in progress at a time.
class ActivationStore {
 public:
  virtual ~ActivationStore() = default;
  virtual void allocate(const Groups& groups) = 0;
  // Starts to store the contents of a segment's window for the micro-batch of a slot, and to fetch
  // them.
  virtual void keep(int segment, Slot slot) = 0;
  virtual void bring(int segment, Slot slot) = 0;
  // Waits until the segment's window may be read and written.
  virtual void settle(int segment) = 0;
  // Bytes stored outside device memory.
  virtual std::int64_t stored_bytes() const { return 0; }
  virtual void set_trace(Trace*) {}
};

// Stores activations in a file or in host memory, with one place for each layer and slot.
std::unique_ptr<ActivationStore> activations_elsewhere(const Stage& stage, int slots,
                                                       const OffloadOptions& where);
// Shards activations over the tensor-parallel ranks, which all have the same layer inputs: each
// rank keeps its part in its own slots.
std::unique_ptr<ActivationStore> activations_in_parts(const Stage& stage);

class ActivationWindows {
 public:
  // Plans without allocating. `stage` must outlive this object.
  ActivationWindows(const Stage& stage, std::unique_ptr<ActivationStore> store);

  // Call after allocating the stage. `groups` must outlive this object.
  void allocate(const Groups& groups) { store_->allocate(groups); }
  std::int64_t stored_bytes() const { return store_->stored_bytes(); }
  void set_trace(Trace* trace) { store_->set_trace(trace); }

  // Call at the start of a pass, before its input is written to the stage.
  void begin(Pass pass, Slot slot);
  // Call before and after each segment of a pass.
  void before(Pass pass, int segment, Slot slot);
  void after(Pass pass, int segment, Slot slot);

 private:
  // Contents of a window; segment -1: empty or no longer needed.
  struct Contents {
    int segment = -1, slot = -1;
    bool operator==(const Contents&) const = default;
  };
  void claim(int segment);
  void fetch(int segment, Slot slot);

  const Stage& stage_;
  std::unique_ptr<ActivationStore> store_;
  std::vector<Contents> contents_;
};

}  // namespace trireme
