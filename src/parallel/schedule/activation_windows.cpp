// Assignment of windows to micro-batches, and the two kinds of activation stores.
#include "parallel/schedule/activation_windows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr TransferUse use_of_activations = {
    "the offloaded activations",
    "choose a folder on another disk, or a smaller offload.activation_layers",
    "read activations",
    "write activations",
    "activations from the file",
    "activations to the file",
    "activations from the host",
    "activations to the host"};

class Elsewhere final : public ActivationStore {
 public:
  Elsewhere(const Stage& stage, int slots, const OffloadOptions& where)
      : stage_(stage),
        slots_(slots),
        where_(where),
        place_bytes_(stage.largest_window()),
        under_way_(static_cast<std::size_t>(stage.activation_windows())) {}

  std::int64_t stored_bytes() const override { return slots_ * stage_.windowed() * place_bytes_; }

  void allocate(const Groups&) override {
    store_ = make_store(use_of_activations, stage_.device(), where_, stored_bytes());
  }

  void keep(int segment, Slot slot) override {
    under_way(segment) = store_->write({piece(segment, slot)}, number(segment));
  }

  void bring(int segment, Slot slot) override {
    under_way(segment) = store_->read({piece(segment, slot)}, number(segment));
  }

  void settle(int segment) override {
    if (under_way(segment) != 0) store_->wait(std::exchange(under_way(segment), 0));
  }

  void set_trace(Trace* trace) override {
    if (store_) store_->set_trace(trace);
  }

 private:
  TransferStore::Ticket& under_way(int segment) {
    return under_way_[static_cast<std::size_t>(stage_.window_of(segment))];
  }
  int number(int segment) const {
    return stage_.definition().segments[static_cast<std::size_t>(segment)].layer;
  }
  TransferStore::Piece piece(int segment, Slot slot) const {
    const std::int64_t place =
        std::int64_t{slot.index} * stage_.windowed() + segment - stage_.first_windowed();
    return {stage_.activation_window(segment), place * place_bytes_,
            stage_.bytes_in_window(segment)};
  }

  const Stage& stage_;
  std::int64_t slots_;
  OffloadOptions where_;
  std::int64_t place_bytes_;
  std::vector<TransferStore::Ticket> under_way_;  // by window
  std::unique_ptr<TransferStore> store_;
};

class InParts final : public ActivationStore {
 public:
  explicit InParts(const Stage& stage)
      : stage_(stage), under_way_(static_cast<std::size_t>(stage.activation_windows())) {}

  void allocate(const Groups& groups) override { tensor_ = groups.tensor.get(); }

  void keep(int segment, Slot slot) override {
    const std::int64_t part = stage_.input_part_bytes();
    stage_.device().queue().copy(stage_.input_part(segment, slot),
                                 stage_.activation_window(segment) + tensor_->rank() * part, part);
  }

  void bring(int segment, Slot slot) override {
    const DType dtype = stage_.definition().compute;
    under_way(segment) = tensor_->all_gather(
        stage_.input_part(segment, slot), stage_.activation_window(segment),
        stage_.input_part_bytes() / size_of(dtype), dtype,
        {"gather activations",
         stage_.definition().segments[static_cast<std::size_t>(segment)].layer});
  }

  void settle(int segment) override { under_way(segment).wait(); }

 private:
  Work& under_way(int segment) {
    return under_way_[static_cast<std::size_t>(stage_.window_of(segment))];
  }

  const Stage& stage_;
  Communicator* tensor_ = nullptr;
  std::vector<Work> under_way_;  // by window
};

}  // namespace

std::unique_ptr<ActivationStore> activations_elsewhere(const Stage& stage, int slots,
                                                       const OffloadOptions& where) {
  return std::make_unique<Elsewhere>(stage, slots, where);
}

std::unique_ptr<ActivationStore> activations_in_parts(const Stage& stage) {
  return std::make_unique<InParts>(stage);
}

ActivationWindows::ActivationWindows(const Stage& stage, std::unique_ptr<ActivationStore> store)
    : stage_(stage),
      store_(std::move(store)),
      contents_(static_cast<std::size_t>(stage.activation_windows())) {}

void ActivationWindows::begin(Pass pass, Slot slot) {
  if (!runs_along(pass)) {
    fetch(stage_.segments() - 1, slot);
  } else if (stage_.has_window(0)) {
    claim(0);
  }
}

void ActivationWindows::before(Pass pass, int segment, Slot slot) {
  if (runs_along(pass)) {
    // The output of this segment is the input of the next one.
    if (stage_.has_window(segment + 1)) claim(segment + 1);
    return;
  }
  fetch(segment, slot);
  if (stage_.has_window(segment)) store_->settle(segment);
}

void ActivationWindows::after(Pass pass, int segment, Slot slot) {
  if (!stage_.has_window(segment)) return;
  if (pass == Pass::forward)
    contents_[static_cast<std::size_t>(stage_.window_of(segment))] = {segment, slot.index};
  // Contents changed by a backward pass must be stored again.
  if (pass == Pass::forward || (pass == Pass::backward && stage_.changes_window(segment)))
    store_->keep(segment, slot);
}

void ActivationWindows::claim(int segment) {
  store_->settle(segment);
  contents_[static_cast<std::size_t>(stage_.window_of(segment))] = {};
  stage_.poison_window(segment);
}

// Prefetches what a pass at this segment will need soon, as far as windows are free. The last
// layers of a forward pass are often still present.
void ActivationWindows::fetch(int segment, Slot slot) {
  const int last = std::min(segment, stage_.first_windowed() + stage_.windowed() - 1);
  const int end = std::max(stage_.first_windowed(), last - stage_.activation_windows() + 1);
  for (int s = last; s >= end; --s) {
    Contents& contents = contents_[static_cast<std::size_t>(stage_.window_of(s))];
    const Contents wanted = {s, slot.index};
    if (contents == wanted) continue;
    store_->settle(s);
    contents = wanted;
    store_->bring(s, slot);
  }
}

}  // namespace trireme
