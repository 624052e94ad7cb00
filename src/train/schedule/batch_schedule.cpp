// Batch sizes, and the numbers of steps that follow from them.
#include "train/schedule/batch_schedule.h"

#include <algorithm>

#include "base/counted.h"
#include "base/divide.h"
#include "base/error.h"

namespace trireme {

BatchSchedule::BatchSchedule(const Config& config, std::int64_t world_size)
    : micro_batch_size_(config.train.micro_batch_size),
      data_parallel_size_(data_parallel_size(config.parallel, world_size)),
      final_size_(global_batch_size(config, world_size)),
      first_size_(final_size_),
      schedule_(batch_size_schedule(config)) {
  check(final_size_);
  for (const BatchSizeFrom& from : schedule_) check(from.size);
  const auto& ramp = config.train.rampup_batch_size;
  if (ramp.empty()) return;
  TRIREME_CHECK(ramp.size() == 3);
  first_size_ = ramp[0];
  if (first_size_ < 1 || ramp[1] < 1 || first_size_ > final_size_ ||
      (final_size_ - first_size_) % ramp[1] != 0) {
    fail_input("train.rampup_batch_size = [{}, {}, {}] never reaches the global batch size {}",
               ramp[0], ramp[1], ramp[2], final_size_);
  }
  check(first_size_);
  if (first_size_ == final_size_) return;
  increment_ = ramp[1];
  ramp_samples_ = ramp[2];
  check(first_size_ + increment_);  // then all intermediate sizes divide too
}

void BatchSchedule::check(std::int64_t size) const {
  if (size > 0 && size % (micro_batch_size_ * data_parallel_size_) == 0) return;
  fail_input(
      "a global batch of {} is not divisible by the micro-batch size {} times {} "
      "data-parallel ranks: it must be a multiple of {}",
      counted(size, "sample"), micro_batch_size_, data_parallel_size_,
      micro_batch_size_ * data_parallel_size_);
}

std::int64_t BatchSchedule::batch_size(std::int64_t consumed) const {
  if (!schedule_.empty()) {
    const auto next = std::ranges::upper_bound(schedule_, consumed, {}, &BatchSizeFrom::samples);
    return (next - 1)->size;
  }
  if (increment_ == 0 || consumed > ramp_samples_ || ramp_samples_ == 0) return final_size_;
  // In double, as Megatron computes it, so that migrated runs change batch size at the same step.
  const std::int64_t increments = (final_size_ - first_size_) / increment_;
  const double samples_per_increment =
      static_cast<double>(ramp_samples_) / static_cast<double>(increments);
  const auto done =
      static_cast<std::int64_t>(static_cast<double>(consumed) / samples_per_increment);
  return std::min(final_size_, first_size_ + done * increment_);
}

std::int64_t BatchSchedule::micro_batches(std::int64_t consumed) const {
  return batch_size(consumed) / (micro_batch_size_ * data_parallel_size_);
}

std::int64_t BatchSchedule::steps(std::int64_t samples, std::int64_t consumed) const {
  std::int64_t steps = 0;
  if (!schedule_.empty()) {
    for (; consumed < std::min(samples, schedule_.back().samples); ++steps)
      consumed += batch_size(consumed);
    return steps + ceil_div(std::max<std::int64_t>(0, samples - consumed), final_size_);
  }
  if (increment_ > 0) {
    for (; consumed <= ramp_samples_; ++steps) consumed += batch_size(consumed);
  }
  return steps + std::max<std::int64_t>(0, samples - consumed) / final_size_;
}

std::int64_t BatchSchedule::samples(std::int64_t steps) const {
  std::int64_t consumed = 0;
  const auto grows = [&] {
    return schedule_.empty() ? increment_ > 0 && consumed <= ramp_samples_
                             : consumed < schedule_.back().samples;
  };
  while (steps > 0 && grows()) {
    consumed += batch_size(consumed);
    --steps;
  }
  return consumed + steps * final_size_;
}

}  // namespace trireme
