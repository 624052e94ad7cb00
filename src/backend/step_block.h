// Step-dependent values, kept in device memory and read when kernels run, so that work enqueued,
// captured or recorded once is valid for every step.
#pragma once

#include <cstdint>

#include "base/exact_sum.h"

namespace trireme {

// Router totals of a step, in device memory, over all layers and sequences.
struct ExpertTotals {
  ExactSum aux_loss, z_loss;

  // Follows the struct, [layers of the model][StepBlock::most_experts + 1]: the choices that each
  // expert of a layer kept and, as the last element, the number of dropped ones.
  std::int64_t* choices() { return reinterpret_cast<std::int64_t*>(this + 1); }
};

struct StepBlock {
  // Written before the first micro-batch.
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  double loss_scale = 1;
  double grad_scale = 1;  // loss scale / tokens of the global batch
  // Weight of one sequence's loss in the gradient, for per-sequence losses.
  double sample_scale = 0;
  ExpertTotals* experts = nullptr;  // in device memory; null: not requested
  std::int64_t most_experts = 0;    // maximum over the layers
  // [layers of the model][heads], in device memory: the largest positive attention logit of each
  // head in this step. Null: not requested.
  double* largest_scores = nullptr;
  std::int64_t score_heads = 0;  // of a layer
  // Written before the optimizer runs, when the totals of all ranks are known.
  std::uint64_t updates = 0;  // steps of the optimizer, this one included
  double lr = 0;
  double update_scale = 1;                            // clipping and the inverse loss scale
  double bias_correction1 = 1, bias_correction2 = 1;  // of Adam: 1 - beta^updates
};

inline constexpr int most_losses = 4;  // per model

// Totals of a step, in device memory: of this rank, later of all ranks. Zeros are empty sums.
struct StepTotals {
  struct Loss {
    ExactSum sum, count;  // of weighted elements, and of weights
  };
  Loss losses[most_losses];    // in the model's declaration order
  ExactSum squares;            // of the gradients
  std::int64_t overflows = 0;  // summands that do not fit in fixed point
};

}  // namespace trireme
