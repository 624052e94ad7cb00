// Warm-up and decay of the learning rate.
#include "train/schedule/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/portable_math.h"

namespace trireme {
namespace {

double cosine_fall(double ratio) {
  return 0.5 * (math::cos(std::numbers::pi * ratio) + 1.0);
}

// Annealing factor: 1 at ratio 0, 0 at ratio 1.
double anneal_fall(AnnealStyle anneal, double ratio) {
  switch (anneal) {
    case AnnealStyle::exponential:
      return 2.0 * math::pow(0.5, ratio) - 1.0;
    case AnnealStyle::linear:
      return 1.0 - ratio;
    case AnnealStyle::cosine:
      return cosine_fall(ratio);
    case AnnealStyle::minus_sqrt:
      return 1.0 - std::sqrt(ratio);
  }
  return 1.0;
}

// Decay factor between min_lr (0) and max_lr (1) at `place`, for a decay from `begin`, the end of
// the warm-up, to `end`.
double share(const LrSchedule& schedule, double place, double begin, double end) {
  const double ratio = (place - begin) / (end - begin);
  switch (schedule.style) {
    case DecayStyle::linear:
      return 1.0 - ratio;
    case DecayStyle::wsd: {
      const double start = end - schedule.anneal_samples;
      return place <= start
                 ? 1.0
                 : anneal_fall(schedule.anneal, (place - start) / schedule.anneal_samples);
    }
    case DecayStyle::cosine:
      return cosine_fall(ratio);
    case DecayStyle::constant:
    case DecayStyle::inverse_sqrt:
      break;  // no factor
  }
  fail("internal error: no share of the learning rate for {}", schedule.style);
}

// Learning rate at `place`; arguments as in share().
double decayed(const LrSchedule& schedule, double place, double begin, double end) {
  if (schedule.style == DecayStyle::constant) return schedule.max_lr;
  if (place > end) return schedule.min_lr;
  if (schedule.style == DecayStyle::inverse_sqrt) {
    const double lr =
        schedule.max_lr * std::sqrt(std::max(begin, 1.0)) / std::sqrt(std::max(place, 1.0));
    return std::max(schedule.min_lr, lr);
  }
  return schedule.min_lr + share(schedule, place, begin, end) * (schedule.max_lr - schedule.min_lr);
}

}  // namespace

double LrSchedule::operator()(std::int64_t samples, std::int64_t tokens) const {
  const double s = static_cast<double>(samples), t = static_cast<double>(tokens);
  if (warmup_samples > 0 && s <= warmup_samples) {
    return init_lr + (max_lr - init_lr) * s / warmup_samples;
  }
  if (decay_tokens == 0) return decayed(*this, s, warmup_samples, decay_samples);
  if (warmup_tokens > 0 && t <= warmup_tokens) {
    return init_lr + (max_lr - init_lr) * t / warmup_tokens;
  }
  return decayed(*this, std::max(t, decay_begin), decay_begin, decay_tokens);
}

LrSchedule make_lr_schedule(const OptimizerConfig& optimizer, const TrainConfig& train,
                            std::int64_t global_batch_size,
                            const std::function<std::int64_t(std::int64_t)>& tokens_of) {
  const bool by_samples = train.samples > 0;
  const auto length = [&](std::int64_t iters, std::int64_t samples) {
    return static_cast<double>(by_samples ? samples : iters * global_batch_size);
  };
  LrSchedule schedule;
  schedule.max_lr = optimizer.lr;
  schedule.min_lr = optimizer.min_lr;
  schedule.init_lr = optimizer.warmup_init_lr;
  schedule.style = optimizer.decay_style;
  schedule.anneal = optimizer.wsd_decay_style;
  schedule.decay_samples = length(optimizer.decay_iters, optimizer.decay_samples);
  if (schedule.decay_samples == 0) schedule.decay_samples = length(train.iters, train.samples);
  schedule.warmup_samples = optimizer.warmup_fraction > 0
                                ? optimizer.warmup_fraction * schedule.decay_samples
                                : length(optimizer.warmup_iters, optimizer.warmup_samples);
  schedule.anneal_samples = length(optimizer.wsd_decay_iters, optimizer.wsd_decay_samples);
  schedule.decay_tokens = static_cast<double>(optimizer.decay_tokens);
  schedule.warmup_tokens = schedule.decay_begin = static_cast<double>(optimizer.warmup_tokens);
  if (optimizer.decay_tokens > 0 && schedule.warmup_samples > 0) {
    TRIREME_CHECK(tokens_of);
    const auto warm = static_cast<std::int64_t>(std::ceil(schedule.warmup_samples));
    schedule.decay_begin = static_cast<double>(tokens_of(warm));
  }
  return schedule;
}

}  // namespace trireme
