// Micro-batches on their way into a stage, and the losses that come out of it.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/stage.h"

namespace trireme {

// One micro-batch as the loader gives it; null where the model has no use for it. rows = batch *
// seq.
struct MicroBatch {
  const std::int32_t* tokens = nullptr;         // [rows]
  const std::int32_t* targets = nullptr;        // [rows]
  const float* loss_weights = nullptr;          // [rows]; null: all one
  const std::int32_t* positions = nullptr;      // [rows]; null: 0, 1, ... in each sequence
  const std::int32_t* first_visible = nullptr;  // [rows]
  const std::int64_t* sample_ids = nullptr;     // [batch]
  // bert:
  const std::int32_t* segments = nullptr;      // [rows]; null: all 0
  const std::int32_t* lengths = nullptr;       // [batch]; null: no padding
  const std::int32_t* order_labels = nullptr;  // [batch]; null: all 0
};

// Gives micro-batch k of this rank; asked once for each k, rising. What it points to stays valid
// until the call that asked for it returns.
using MicroBatches = std::function<MicroBatch(std::int64_t)>;

// Sum of loss * weight over tokens, and sum of weights; with a sentence-order head also the sum of
// its losses over samples, and their number.
struct LossSum {
  double loss = 0;
  double tokens = 0;
  double order_loss = 0;
  double samples = 0;

  double token_mean() const { return tokens > 0 ? loss / tokens : 0; }
  double order_mean() const { return samples > 0 ? order_loss / samples : 0; }
  // What training makes smaller: each part's mean over the whole batch.
  double mean() const { return token_mean() + order_mean(); }
  LossSum& operator+=(const LossSum& more) {
    loss += more.loss;
    tokens += more.tokens;
    order_loss += more.order_loss;
    samples += more.samples;
    return *this;
  }
};

// What the micro-batches of a step have in common.
struct BatchShape {
  std::int64_t batch = 1;  // samples
  std::int64_t seq = 1;    // positions of each
  bool bert = false;
  bool order_head = false;
  // Predicted tokens per sample of the global batch: with it a sample's order loss weighs in the
  // mean over tokens what it weighs in the mean over samples. 1 where no token is predicted.
  float order_weight = 1;

  std::int64_t rows() const { return batch * seq; }
};

// Copies what the stage reads of a micro-batch into a slot of it.
void load_micro_batch(const Stage& stage, int slot, const MicroBatch& batch,
                      const BatchShape& shape);

// The losses that a slot's passes have left, and what they are to be divided by.
LossSum read_losses(const Stage& stage, int slot, const BatchShape& shape);

}  // namespace trireme
