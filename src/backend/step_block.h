// Step-dependent values. They lie in the device's memory and kernels read them when they run, so
// that work which was enqueued, captured or recorded once is right for every step.
#pragma once

#include <cstdint>

#include "base/exact_sum.h"

namespace trireme {

// What the routers of a step add up, in the device's memory: over all layers and sequences.
struct ExpertTotals {
  ExactSum aux_loss, z_loss;

  // After it, [layers of the model][StepBlock::most_experts + 1]: the choices that each expert of a
  // layer kept, and after the last one's how many were dropped.
  std::int64_t* choices() { return reinterpret_cast<std::int64_t*>(this + 1); }
};

struct StepBlock {
  // Written before the first micro-batch.
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  double loss_scale = 1;
  double grad_scale = 1;  // loss scale / tokens of the global batch
  // What the loss of one sequence weighs in the gradient, where losses are per sequence.
  double sample_scale = 0;
  ExpertTotals* experts = nullptr;  // in the device's memory; null: none are wanted
  std::int64_t most_experts = 0;    // of any layer
  // Written when the totals of all ranks are known, before the optimizer.
  std::uint64_t updates = 0;  // steps of the optimizer, this one included
  double lr = 0;
  double update_scale = 1;                            // clipping and the inverse loss scale
  double bias_correction1 = 1, bias_correction2 = 1;  // of Adam: 1 - beta^updates
};

inline constexpr int most_losses = 4;  // of a model

// What a step adds up, in the device's memory too: of this rank, then of all. Zeros are empty sums.
struct StepTotals {
  struct Loss {
    ExactSum sum, count;  // of weighted elements, and of weights
  };
  Loss losses[most_losses];    // in the order in which the model declares them
  ExactSum squares;            // of the gradients
  std::int64_t overflows = 0;  // summands that fixed point cannot hold
};

}  // namespace trireme
