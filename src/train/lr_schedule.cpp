// Warm-up and decay of the learning rate.
#include "train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace trireme {
namespace {

double cosine_fall(double ratio) {
  return 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0);
}

// From 1 at ratio 0 to 0 at ratio 1.
double anneal_fall(LrSchedule::Anneal anneal, double ratio) {
  switch (anneal) {
    case LrSchedule::Anneal::exponential:
      return 2.0 * std::pow(0.5, ratio) - 1.0;
    case LrSchedule::Anneal::linear:
      return 1.0 - ratio;
    case LrSchedule::Anneal::cosine:
      return cosine_fall(ratio);
    case LrSchedule::Anneal::minus_sqrt:
      return 1.0 - std::sqrt(ratio);
  }
  return 1.0;
}

// Share of the way from min_lr to max_lr at `samples`, which lies inside the decay.
double fall(const LrSchedule& schedule, double samples) {
  if (schedule.style == LrSchedule::Style::wsd) {
    const double start = schedule.decay_samples - schedule.anneal_samples;
    if (samples <= start) return 1.0;
    return anneal_fall(schedule.anneal, (samples - start) / schedule.anneal_samples);
  }
  const double ratio =
      (samples - schedule.warmup_samples) / (schedule.decay_samples - schedule.warmup_samples);
  return schedule.style == LrSchedule::Style::linear ? 1.0 - ratio : cosine_fall(ratio);
}

LrSchedule::Style style_of(const std::string& name) {
  if (name == "constant") return LrSchedule::Style::constant;
  if (name == "linear") return LrSchedule::Style::linear;
  if (name == "cosine") return LrSchedule::Style::cosine;
  if (name == "inverse_sqrt") return LrSchedule::Style::inverse_sqrt;
  TRIREME_CHECK(name == "wsd");
  return LrSchedule::Style::wsd;
}

LrSchedule::Anneal anneal_of(const std::string& name) {
  if (name == "exponential") return LrSchedule::Anneal::exponential;
  if (name == "linear") return LrSchedule::Anneal::linear;
  if (name == "cosine") return LrSchedule::Anneal::cosine;
  TRIREME_CHECK(name == "minus_sqrt");
  return LrSchedule::Anneal::minus_sqrt;
}

}  // namespace

double LrSchedule::operator()(std::int64_t samples) const {
  const double s = static_cast<double>(samples);
  if (warmup_samples > 0 && s <= warmup_samples) {
    return init_lr + (max_lr - init_lr) * s / warmup_samples;
  }
  if (style == Style::constant) return max_lr;
  if (s > decay_samples) return min_lr;
  if (style == Style::inverse_sqrt) {
    const double lr =
        max_lr * std::sqrt(std::max(warmup_samples, 1.0)) / std::sqrt(std::max(s, 1.0));
    return std::max(min_lr, lr);
  }
  return min_lr + fall(*this, s) * (max_lr - min_lr);
}

LrSchedule make_lr_schedule(const OptimizerConfig& optimizer, const TrainConfig& train,
                            std::int64_t global_batch_size) {
  const bool by_samples = train.samples > 0;
  const auto length = [&](std::int64_t iters, std::int64_t samples) {
    return static_cast<double>(by_samples ? samples : iters * global_batch_size);
  };
  LrSchedule schedule;
  schedule.max_lr = optimizer.lr;
  schedule.min_lr = optimizer.min_lr;
  schedule.init_lr = optimizer.warmup_init_lr;
  schedule.style = style_of(optimizer.decay_style);
  schedule.anneal = anneal_of(optimizer.wsd_decay_style);
  schedule.decay_samples = length(optimizer.decay_iters, optimizer.decay_samples);
  if (schedule.decay_samples == 0) schedule.decay_samples = length(train.iters, train.samples);
  schedule.warmup_samples = optimizer.warmup_fraction > 0
                                ? optimizer.warmup_fraction * schedule.decay_samples
                                : length(optimizer.warmup_iters, optimizer.warmup_samples);
  schedule.anneal_samples = length(optimizer.wsd_decay_iters, optimizer.wsd_decay_samples);
  return schedule;
}

}  // namespace trireme
