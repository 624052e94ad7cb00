// The losses that models declare: which results training makes smaller, and what their means are
// over.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "backend/step_block.h"
#include "config/config.h"
#include "runtime/stage.h"

namespace trireme {

enum class LossUnit : std::uint8_t {
  token,   // one element per row of targets, with BatchInput::loss_weights
  sample,  // one element per sample, each with weight 1
};

// A root of the head's graph. A model has one loss per token, which comes first, and any number per
// sample: their gradients are weighed by StepBlock::sample_scale, so that training makes the sum
// of the means of all losses smaller.
struct Loss {
  ResultOutput result;
  LossUnit unit;
  // Names where a model has several: in metrics.jsonl, in TensorBoard and on the terminal.
  const char* metric;
  const char* valid_metric;
  const char* scalar;
  const char* valid_scalar;
  const char* word;
};

inline constexpr Loss word_loss{
    ResultOutput::token_loss, LossUnit::token, "lm_loss", "valid_lm_loss", "lm loss",
    "lm loss validation",     "words"};

// The losses of the model's family.
std::span<const Loss> losses_of(const ModelConfig& model);

// Sum of weighted losses and sum of weights, of each loss that a model declares.
struct LossSum {
  struct Part {
    double sum = 0, count = 0;
    double mean() const { return count > 0 ? sum / count : 0; }
  };
  std::array<Part, most_losses> parts;

  const Part& words() const { return parts[0]; }
  // The training objective: each part's mean over the whole batch.
  double mean() const {
    double mean = 0;
    for (const Part& part : parts) mean += part.mean();
    return mean;
  }
  LossSum& operator+=(const LossSum& more) {
    for (int i = 0; i < most_losses; ++i) {
      parts[i].sum += more.parts[i].sum;
      parts[i].count += more.parts[i].count;
    }
    return *this;
  }
};

// Adds the losses that a slot's passes have left in a stage with the head to totals in device
// memory: those of each exact block by themselves, where the graphs have one.
void add_losses(const Stage& stage, int slot, std::span<const Loss> losses, StepTotals* totals);

}  // namespace trireme
