// Counts all work in steps, so that a slower machine slows all of it equally.
#include "cli/try/pace.h"

#include <algorithm>

namespace trireme::cli {
namespace {

constexpr double kept_free = 0.1;        // of the time
constexpr double of_evaluations = 0.03;  // of the steps: five times four batches, forward only
constexpr std::size_t few_steps = 4;     // fewer do not measure the machine
constexpr double recent = 0.25;          // of the remaining time

}  // namespace

std::int64_t steps_in(double seconds, double seconds_of_step, double in_the_end) {
  const double free = (1 - kept_free) * seconds / seconds_of_step - in_the_end;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(free / (1 + of_evaluations)));
}

void TryPace::plan(std::int64_t steps) {
  planned_ = steps;
  first_ = true;
}

void TryPace::add(double seconds) {
  if (!first_) seconds_.push_back(seconds);
  first_ = false;
}

// The mean of the last steps, which took `window` seconds together and are not too few.
double TryPace::recent_step(double window) const {
  double sum = 0;
  std::size_t count = 0;
  while (count < seconds_.size() && (count < few_steps || sum < window))
    sum += seconds_[seconds_.size() - ++count];
  return sum / static_cast<double>(count);
}

std::int64_t TryPace::fitting(std::int64_t done, double left) const {
  if (seconds_.size() < few_steps) return planned_;
  const double step = recent_step(recent * left);
  const auto remaining = static_cast<double>(planned_ - done);
  if ((remaining * (1 + of_evaluations) + in_the_end_) * step <= left) return planned_;
  return std::min(planned_, done + steps_in(left, step, in_the_end_));
}

}  // namespace trireme::cli
