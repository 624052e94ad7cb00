// Activations of layers that lie in windows (StageOptions::windowed_layers): stored after a layer's
// forward pass, fetched ahead of its backward pass, both while other layers compute.
#pragma once

#include <memory>
#include <vector>

#include "parallel/groups.h"
#include "parallel/trace.h"
#include "parallel/transfer_store.h"
#include "runtime/stage.h"

namespace trireme {

// Backing store of a stage's windows. A window has one transfer in progress at a time.
class ActivationStore {
 public:
  virtual ~ActivationStore() = default;
  virtual void allocate(const Groups& groups) = 0;
  // Starts to take what the window of a segment holds, for the micro-batch of a slot, and to bring
  // it back.
  virtual void keep(int segment, Slot slot) = 0;
  virtual void bring(int segment, Slot slot) = 0;
  // The window of a segment may be read and written now.
  virtual void settle(int segment) = 0;
  // Bytes stored outside of the memory of the device.
  virtual std::int64_t stored_bytes() const { return 0; }
  virtual void set_trace(Trace*) {}
};

// In a file or in the memory of a GPU's host: a place for each layer and slot.
std::unique_ptr<ActivationStore> activations_elsewhere(const Stage& stage, int slots,
                                                       const OffloadOptions& where);
// Cut over the tensor-parallel ranks, which all have the same inputs of layers: each keeps a part
// in its slots.
std::unique_ptr<ActivationStore> activations_in_parts(const Stage& stage);

class ActivationWindows {
 public:
  // Plans, without allocating. The stage must outlive it.
  ActivationWindows(const Stage& stage, std::unique_ptr<ActivationStore> store);

  // After the stage. `groups` outlive this.
  void allocate(const Groups& groups) { store_->allocate(groups); }
  std::int64_t stored_bytes() const { return store_->stored_bytes(); }
  void set_trace(Trace* trace) { store_->set_trace(trace); }

  // A pass is about to begin: before its input is put into the stage.
  void begin(Pass pass, Slot slot);
  // Around the segments of a pass.
  void before(Pass pass, int segment, Slot slot);
  void after(Pass pass, int segment, Slot slot);

 private:
  // Contents of a window; segment -1: nothing that may be needed again.
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
