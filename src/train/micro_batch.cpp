// Copies between a loader's arrays and a stage's slots.
#include "train/micro_batch.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace trireme {
namespace {

// Targets and weights of all rows, or of those alone that are predicted.
void load_losses(const Stage& stage, int slot, const MicroBatch& batch, const BatchShape& shape) {
  auto* targets = static_cast<std::int32_t*>(stage.batch(slot, BatchInput::targets));
  if (!targets) return;
  TRIREME_CHECK(batch.targets);
  auto* weights = static_cast<float*>(stage.batch(slot, BatchInput::loss_weights));
  auto* predicted = static_cast<std::int32_t*>(stage.batch(slot, BatchInput::predicted_rows));
  const std::int64_t rows = shape.rows();
  const auto weight = [&](std::int64_t r) {
    return batch.loss_weights ? batch.loss_weights[r] : 1;
  };
  if (!predicted) {
    std::copy_n(batch.targets, rows, targets);
    for (std::int64_t r = 0; r < rows; ++r) weights[r] = weight(r);
    return;
  }
  const std::int64_t room = stage.batch_bytes(BatchInput::targets) / 4;
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (weight(r) == 0) continue;
    TRIREME_CHECK(count < room);
    predicted[count] = static_cast<std::int32_t>(r);
    targets[count] = batch.targets[r];
    weights[count++] = weight(r);
  }
  std::fill(predicted + count, predicted + room, 0);
  std::fill(targets + count, targets + room, 0);
  std::fill(weights + count, weights + room, 0.f);
}

void load_bert(const Stage& stage, int slot, const MicroBatch& batch, const BatchShape& shape) {
  const auto fill = [&](BatchInput which, std::int64_t count, const std::int32_t* from,
                        auto&& value) {
    auto* to = static_cast<std::int32_t*>(stage.batch(slot, which));
    for (std::int64_t i = 0; to && i < count; ++i)
      to[i] = from ? from[i] : static_cast<std::int32_t>(value(i));
  };
  const auto none = [](std::int64_t) { return 0; };
  fill(BatchInput::segments, shape.rows(), batch.segments, none);
  fill(BatchInput::lengths, shape.batch, batch.lengths, [&](std::int64_t) { return shape.seq; });
  fill(BatchInput::order_labels, shape.batch, batch.order_labels, none);
  fill(BatchInput::first_rows, shape.batch, nullptr, [&](std::int64_t b) { return b * shape.seq; });
  if (auto* weights = static_cast<float*>(stage.batch(slot, BatchInput::order_weights)))
    std::fill_n(weights, shape.batch, shape.order_weight);
}

// Adds losses, each times its weight, and the weights.
void add_losses(const Stage& stage, int slot, ResultOutput result, const float* weights,
                std::int64_t count, double& loss, double& total) {
  const void* losses = stage.result(slot, result);
  for (std::int64_t i = 0; i < count; ++i) {
    if (weights && weights[i] == 0) continue;
    const double weight = weights ? weights[i] : 1;
    loss += weight * (stage.definition().compute == DType::f64
                          ? static_cast<const double*>(losses)[i]
                          : static_cast<double>(static_cast<const float*>(losses)[i]));
    total += weight;
  }
}

}  // namespace

void load_micro_batch(const Stage& stage, int slot, const MicroBatch& batch,
                      const BatchShape& shape) {
  const std::int64_t rows = shape.rows();
  const auto copy = [&](BatchInput which, const void* from, std::int64_t bytes) {
    void* to = stage.batch(slot, which);
    if (to && from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return to && !from;
  };
  TRIREME_CHECK(!copy(BatchInput::tokens, batch.tokens, rows * 4));
  TRIREME_CHECK(!copy(BatchInput::sample_ids, batch.sample_ids, shape.batch * 8));
  TRIREME_CHECK(!copy(BatchInput::first_visible, batch.first_visible, rows * 4));
  if (copy(BatchInput::positions, batch.positions, rows * 4)) {
    auto* positions = static_cast<std::int32_t*>(stage.batch(slot, BatchInput::positions));
    for (std::int64_t r = 0; r < rows; ++r) positions[r] = static_cast<std::int32_t>(r % shape.seq);
  }
  load_losses(stage, slot, batch, shape);
  if (shape.bert) load_bert(stage, slot, batch, shape);
}

LossSum read_losses(const Stage& stage, int slot, const BatchShape& shape) {
  LossSum sum;
  add_losses(stage, slot, ResultOutput::token_loss,
             static_cast<const float*>(stage.batch(slot, BatchInput::loss_weights)),
             stage.batch_bytes(BatchInput::loss_weights) / 4, sum.loss, sum.tokens);
  if (shape.order_head)
    add_losses(stage, slot, ResultOutput::order_loss, nullptr, shape.batch, sum.order_loss,
               sum.samples);
  return sum;
}

}  // namespace trireme
