// Copies from the arrays of a batch to the inputs of a stage.
#include "model/batch_inputs.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

// One slot of a stage; inputs that the stage does not have are left out.
class Inputs {
 public:
  Inputs(const Stage& stage, int slot) : stage_(stage), slot_(slot) {}

  template <class T>
  T* at(BatchInput which) const {
    return static_cast<T*>(stage_.batch(slot_, which));
  }
  template <class T>
  void copy(BatchInput which, const std::vector<T>& from) const {
    T* to = at<T>(which);
    if (!to) return;
    const auto bytes = static_cast<std::int64_t>(from.size() * sizeof(T));
    TRIREME_CHECK(stage_.batch_bytes(which) == bytes);
    std::memcpy(to, from.data(), static_cast<std::size_t>(bytes));
  }

  // Targets and weights of all rows, or of those alone that are predicted.
  void copy_predictions(const Batch& batch) const {
    auto* predicted = at<std::int32_t>(BatchInput::predicted_rows);
    if (!predicted) {
      copy(BatchInput::targets, batch.targets);
      copy(BatchInput::loss_weights, batch.loss_weights);
      return;
    }
    auto* targets = at<std::int32_t>(BatchInput::targets);
    auto* weights = at<float>(BatchInput::loss_weights);
    const std::int64_t room = stage_.batch_bytes(BatchInput::targets) / 4;
    std::int64_t count = 0;
    for (std::size_t r = 0; r < batch.targets.size(); ++r) {
      if (batch.loss_weights[r] == 0) continue;
      TRIREME_CHECK(count < room);
      predicted[count] = static_cast<std::int32_t>(r);
      targets[count] = batch.targets[r];
      weights[count++] = batch.loss_weights[r];
    }
    std::fill(predicted + count, predicted + room, 0);
    std::fill(targets + count, targets + room, 0);
    std::fill(weights + count, weights + room, 0.f);
  }

 private:
  const Stage& stage_;
  int slot_;
};

}  // namespace

void load_batch(const Stage& stage, int slot, const Batch& batch, float sample_weight) {
  const Inputs inputs(stage, slot);
  inputs.copy(BatchInput::tokens, batch.tokens);
  inputs.copy(BatchInput::positions, batch.positions);
  inputs.copy(BatchInput::first_visible, batch.first_visible);
  inputs.copy(BatchInput::segments, batch.segments);
  inputs.copy(BatchInput::sample_ids, batch.sample_ids);
  inputs.copy(BatchInput::lengths, batch.lengths);
  inputs.copy(BatchInput::order_labels, batch.order_labels);
  if (inputs.at<std::int32_t>(BatchInput::targets)) inputs.copy_predictions(batch);
  auto* first_rows = inputs.at<std::int32_t>(BatchInput::first_rows);
  for (std::int64_t b = 0; first_rows && b < batch.micro_batch_size; ++b)
    first_rows[b] = static_cast<std::int32_t>(b * batch.seq_length);
  if (auto* weights = inputs.at<float>(BatchInput::order_weights))
    std::fill_n(weights, batch.micro_batch_size, sample_weight);
}

bool reads_data(const StageDefinition& stage, bool positions_of_documents) {
  const auto counts_up = [&](const Value& value) {
    switch (static_cast<BatchInput>(value.index)) {
      case BatchInput::sample_ids:
      case BatchInput::first_rows:
      case BatchInput::order_weights:
        return true;
      case BatchInput::positions:
        return !positions_of_documents;
      default:
        return false;
    }
  };
  for (const SegmentTemplate& segment : stage.templates) {
    const Graph& graph = *segment.eval;
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      if (graph.value(id).role == Role::batch && !counts_up(graph.value(id))) return true;
    }
  }
  return false;
}

}  // namespace trireme
