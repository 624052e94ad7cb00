// The state machine of dynamic loss scaling.
#include "optim/loss_scale.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace trireme {
namespace {

// Doubling stops here: fp32 gradients would overflow anyway.
constexpr double kLargestScale = 0x1p120;

}  // namespace

LossScale::LossScale(const OptimizerConfig& optimizer, Precision precision)
    : dynamic_(precision == Precision::fp16 && optimizer.loss_scale == 0),
      min_scale_(optimizer.min_loss_scale),
      window_(optimizer.loss_scale_window),
      hysteresis_(optimizer.hysteresis) {
  if (dynamic_) {
    state_ = {optimizer.initial_loss_scale, 0, hysteresis_};
  } else if (precision == Precision::fp16) {
    state_.scale = optimizer.loss_scale;
  }
}

void LossScale::update(bool overflow) {
  if (!dynamic_) return;
  overflows_at_smallest_ = overflow && state_.scale == min_scale_ ? overflows_at_smallest_ + 1 : 0;
  if (overflow) {
    state_.good_steps = 0;
    // One below zero would mean the same as zero; staying there keeps the number bounded.
    state_.hysteresis = std::max<std::int64_t>(0, state_.hysteresis - 1);
    if (state_.hysteresis == 0) state_.scale = std::max(min_scale_, state_.scale * 0.5);
  } else if (++state_.good_steps == window_) {
    state_.good_steps = 0;
    state_.hysteresis = hysteresis_;
    state_.scale = std::min(kLargestScale, state_.scale * 2);
  }
}

void LossScale::restore(const LossScaleState& state) {
  if (!dynamic_) return;
  if (!std::isfinite(state.scale) || state.scale <= 0 || state.good_steps < 0) {
    fail_input("the checkpoint contains an invalid loss scale: {} after {} steps without overflow",
               state.scale, state.good_steps);
  }
  // The configuration may have changed: a smaller window or hysteresis takes effect immediately.
  state_.scale = std::max(min_scale_, state.scale);
  state_.good_steps = std::min(state.good_steps, window_ - 1);
  state_.hysteresis = std::clamp<std::int64_t>(state.hysteresis, 0, hysteresis_);
}

}  // namespace trireme
