// Sequence length by step, and truncation of micro-batches.
#include "train/schedule/curriculum.h"

#include <algorithm>
#include <cmath>

#include "base/portable_math.h"

namespace trireme {

Curriculum::Curriculum(const Config& config)
    : config_(config.curriculum),
      active_(config.curriculum.schedule != CurriculumSchedule::none),
      full_(config.model.seq_length) {}

std::int64_t Curriculum::length(std::int64_t steps) const {
  if (!active_) return full_;
  // Computed in double and floored before rounding to the step, as in DeepSpeed, so that migrated
  // runs change their length at the same iteration.
  const double progress = static_cast<double>(steps + 1) / static_cast<double>(config_.iters);
  const double degree = config_.schedule == CurriculumSchedule::fixed_root
                            ? static_cast<double>(config_.root_degree)
                            : 1;
  const double range = static_cast<double>(full_ - config_.min_length);
  const double grown =
      std::floor(math::pow(progress, 1 / degree) * range + static_cast<double>(config_.min_length));
  if (grown >= static_cast<double>(full_ + config_.length_step)) return full_;
  const auto length = static_cast<std::int64_t>(grown);
  return std::min(full_, length - length % config_.length_step);
}

std::vector<std::int64_t> Curriculum::lengths() const {
  std::vector<std::int64_t> all;
  for (std::int64_t l = active_ ? config_.min_length : full_; l < full_; l += config_.length_step)
    all.push_back(l);
  all.push_back(full_);
  return all;
}

Consumed consumed_until(const BatchSchedule& batches, const Curriculum& curriculum,
                        const std::function<bool(const Consumed&)>& enough, Consumed consumed) {
  while (!enough(consumed)) {
    const std::int64_t samples = batches.batch_size(consumed.samples);
    consumed.tokens += samples * curriculum.length(consumed.steps);
    consumed.samples += samples;
    ++consumed.steps;
  }
  return consumed;
}

namespace {

template <class T>
void cut_rows(std::vector<T>& values, std::int64_t rows, std::int64_t from, std::int64_t to) {
  for (std::int64_t r = 1; r < rows; ++r)
    std::copy_n(values.begin() + r * from, to, values.begin() + r * to);
  values.resize(static_cast<std::size_t>(rows * to));
}

}  // namespace

void cut(Batch& batch, std::int64_t length) {
  const std::int64_t rows = batch.micro_batch_size, whole = batch.seq_length;
  if (length >= whole) return;
  for (auto* values :
       {&batch.tokens, &batch.targets, &batch.positions, &batch.first_visible, &batch.segments}) {
    cut_rows(*values, rows, whole, length);
  }
  cut_rows(batch.loss_weights, rows, whole, length);
  for (std::int32_t& real : batch.lengths) real = std::min(real, static_cast<std::int32_t>(length));
  batch.seq_length = length;
}

}  // namespace trireme
