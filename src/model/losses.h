// Losses declared by models: the results that training minimizes, and the denominators of their
// means.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "backend/step_block.h"
#include "config/config.h"
#include "runtime/stage.h"

namespace trireme {

enum class LossUnit : std::uint8_t {
  token,          // one element per row of targets, with BatchInput::loss_weights
  further_token,  // the same of the rows after those: reported, but not part of the mean
  sample,         // one element per sample, each with weight 1
};

// A loss output of the head's graph. A model has one per-token loss, which comes first, and any
// number of per-sample losses: StepBlock::sample_scale weighs their gradients so that training
// minimizes the sum of the means of all losses. Losses of further tokens are made by training only;
// their weights contain what they count in the gradient.
struct Loss {
  ResultOutput result;
  LossUnit unit;
  // Names used if a model has several losses: in metrics.jsonl, TensorBoard and the terminal.
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

// The ones that evaluation computes, without those of further tokens.
std::span<const Loss> evaluated_losses(const ModelConfig& model);

// For each declared loss, the sum of weighted losses and the sum of weights.
struct LossSum {
  struct Part {
    double sum = 0, count = 0;
    bool aside = false;  // of further tokens
    double mean() const { return count > 0 ? sum / count : 0; }
  };
  std::array<Part, most_losses> parts;

  const Part& words() const { return parts[0]; }
  // The training objective without the losses of further tokens: the sum of each loss's mean over
  // the whole batch.
  double mean() const {
    double mean = 0;
    for (const Part& part : parts) mean += part.aside ? 0 : part.mean();
    return mean;
  }
  LossSum& operator+=(const LossSum& more) {
    for (int i = 0; i < most_losses; ++i) {
      parts[i].sum += more.parts[i].sum;
      parts[i].count += more.parts[i].count;
      parts[i].aside = more.parts[i].aside;
    }
    return *this;
  }
};

// Adds the losses that passes left in a slot of a stage with the head to totals in device memory:
// separately for each exact block, if the graphs have blocks. `trained`: by a training pass, which
// computes all losses of the model.
void add_losses(const Stage& stage, int slot, const ModelConfig& model, bool trained,
                StepTotals* totals);

}  // namespace trireme
