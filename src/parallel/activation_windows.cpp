// Which window holds what, and the two places where activations are kept.
#include "parallel/activation_windows.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

constexpr TransferUse use_of_file = {
    "the offloaded activations",
    "choose a folder on another disk, or a smaller offload.activation_layers", "read activations",
    "write activations"};

class InFile final : public ActivationStore {
 public:
  InFile(const Stage& stage, int slots, std::string folder, double timeout_s)
      : stage_(stage),
        slots_(slots),
        folder_(std::move(folder)),
        timeout_s_(timeout_s),
        place_bytes_(stage.largest_window()),
        under_way_(static_cast<std::size_t>(stage.activation_windows())) {}

  std::int64_t file_bytes() const override { return slots_ * stage_.windowed() * place_bytes_; }

  void allocate(const Groups&) override {
    if (stage_.device().computes() && file_bytes() > 0)
      file_ = std::make_unique<TransferFile>(use_of_file, folder_, file_bytes(), timeout_s_);
  }

  void keep(int segment, Slot slot) override {
    record_transfer(stage_.device(), false, "activations to the file", bytes(segment));
    if (file_) under_way(segment) = file_->write({piece(segment, slot)}, number(segment));
  }

  void bring(int segment, Slot slot) override {
    record_transfer(stage_.device(), true, "activations from the file", bytes(segment));
    if (file_) under_way(segment) = file_->read({piece(segment, slot)}, number(segment));
  }

  void settle(int segment) override {
    if (const TransferFile::Ticket ticket = std::exchange(under_way(segment), 0); ticket != 0)
      file_->wait(ticket);
  }

  void set_trace(Trace* trace) override {
    if (file_) file_->set_trace(trace);
  }

 private:
  TransferFile::Ticket& under_way(int segment) {
    return under_way_[static_cast<std::size_t>(stage_.window_of(segment))];
  }
  std::int64_t bytes(int segment) const { return stage_.bytes_in_window(segment); }
  int number(int segment) const {
    return stage_.definition().segments[static_cast<std::size_t>(segment)].layer;
  }
  TransferFile::Piece piece(int segment, Slot slot) const {
    const std::int64_t place =
        std::int64_t{slot.index} * stage_.windowed() + segment - stage_.first_windowed();
    return {stage_.activation_window(segment), place * place_bytes_, bytes(segment)};
  }

  const Stage& stage_;
  std::int64_t slots_;
  std::string folder_;
  double timeout_s_;
  std::int64_t place_bytes_;
  std::vector<TransferFile::Ticket> under_way_;  // by window
  std::unique_ptr<TransferFile> file_;
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

std::unique_ptr<ActivationStore> activations_in_file(const Stage& stage, int slots,
                                                     std::string folder, double timeout_s) {
  return std::make_unique<InFile>(stage, slots, std::move(folder), timeout_s);
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
    // Its output is the input of the next segment.
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
  // What a backward pass has changed is kept again.
  if (pass == Pass::forward || (pass == Pass::backward && stage_.changes_window(segment)))
    store_->keep(segment, slot);
}

void ActivationWindows::claim(int segment) {
  store_->settle(segment);
  contents_[static_cast<std::size_t>(stage_.window_of(segment))] = {};
  stage_.poison_window(segment);
}

// What a pass that reached a segment needs soon, as far as there are windows. The last layers of a
// forward pass are often there still.
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
