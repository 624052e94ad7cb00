// Dynamic loss scaling for fp16: a state machine over steps with and without overflow.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace trireme {

// The part that a checkpoint keeps: plain numbers.
struct LossScaleState {
  double scale = 1;
  std::int64_t good_steps = 0;  // without overflow, since the last growth or overflow
  std::int64_t hysteresis = 0;  // overflows that are still forgiven, plus one
  bool operator==(const LossScaleState&) const = default;
};

// Multiplies the loss before the backward pass; gradients are divided by it before the step.
// Each overflow uses up one of `hysteresis`; once none is left every further overflow halves the
// scale (not below the smallest). After `loss_scale_window` good steps in a row the scale doubles
// and the hysteresis is whole again; halving does not restore it.
class LossScale {
 public:
  // Dynamic for precision "fp16" with optimizer.loss_scale == 0; else fixed: at
  // optimizer.loss_scale for fp16, at 1 for other precisions.
  LossScale(const OptimizerConfig& optimizer, Precision precision);

  double scale() const { return state_.scale; }
  bool is_dynamic() const { return dynamic_; }

  // Takes note of a step's outcome. After an overflow the optimizer and schedule steps are skipped.
  void update(bool overflow);
  // Whether this many steps in a row overflowed at the smallest scale, so that no scale will help.
  bool is_stuck() const { return overflows_at_smallest_ >= patience; }
  static constexpr int patience = 20;

  const LossScaleState& state() const { return state_; }
  // Continues from a checkpoint. A fixed scale stays as configured. Refuses (fail_input) numbers
  // that no run can have saved.
  void restore(const LossScaleState& state);

 private:
  bool dynamic_;
  double min_scale_;
  std::int64_t window_;
  std::int64_t hysteresis_;
  int overflows_at_smallest_ = 0;  // in a row; not part of the state: a restart is a new chance
  LossScaleState state_;
};

}  // namespace trireme
