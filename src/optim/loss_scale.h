// Dynamic loss scaling for fp16: a state machine over steps with and without overflow.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace trireme {

// The state saved in a checkpoint: plain numbers.
struct LossScaleState {
  double scale = 1;
  std::int64_t good_steps = 0;  // without overflow, since the last growth or overflow
  std::int64_t hysteresis = 0;  // overflows still tolerated, plus one
  bool operator==(const LossScaleState&) const = default;
};

// Multiplies the loss before the backward pass; gradients are divided by it before the step. Each
// overflow uses up one of `hysteresis`; the one that uses up the last and all later ones halve the
// scale (down to the minimum). After `loss_scale_window` consecutive good steps the scale doubles
// and the hysteresis is reset; halving does not reset it.
class LossScale {
 public:
  // Dynamic for precision "fp16" with optimizer.loss_scale == 0; otherwise fixed:
  // optimizer.loss_scale for fp16, 1 for other precisions.
  LossScale(const OptimizerConfig& optimizer, Precision precision);

  double scale() const { return state_.scale; }
  bool is_dynamic() const { return dynamic_; }

  // Records a step's outcome. After an overflow the optimizer and schedule steps are skipped.
  void update(bool overflow);
  // Whether `patience` consecutive steps overflowed at the minimum scale: no scale will help.
  bool is_stuck() const { return overflows_at_smallest_ >= patience; }
  static constexpr int patience = 20;

  const LossScaleState& state() const { return state_; }
  // Restores from a checkpoint. A fixed scale stays as configured. Rejects (fail_input) values that
  // no run can have saved.
  void restore(const LossScaleState& state);

 private:
  bool dynamic_;
  double min_scale_;
  std::int64_t window_;
  std::int64_t hysteresis_;
  int overflows_at_smallest_ = 0;  // consecutive; not saved, so that a restart begins from 0
  LossScaleState state_;
};

}  // namespace trireme
