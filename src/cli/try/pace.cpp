// Counts all work in steps, so that a slower machine slows all of it equally.
#include "cli/try/pace.h"

#include <algorithm>
#include <numeric>

namespace trireme::cli {
namespace {

constexpr double kept_free = 0.1;        // of the time
constexpr double of_evaluations = 0.03;  // of the steps: five times four batches, forward only
constexpr std::size_t few_steps = 3;     // too few to measure the machine
constexpr std::size_t last_steps = 8;

}  // namespace

std::int64_t steps_in(double seconds, double seconds_of_step, double in_the_end) {
  const double free = (1 - kept_free) * seconds / seconds_of_step - in_the_end;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(free / (1 + of_evaluations)));
}

void TryPace::add(double seconds) {
  if (!first_) seconds_.push_back(seconds);
  first_ = false;
  if (seconds_.size() > last_steps) seconds_.pop_front();
}

std::int64_t TryPace::fitting(std::int64_t done, double left) const {
  if (seconds_.size() < few_steps) return planned_;
  const double step =
      std::accumulate(seconds_.begin(), seconds_.end(), 0.0) / static_cast<double>(seconds_.size());
  const auto remaining = static_cast<double>(planned_ - done);
  if ((remaining * (1 + of_evaluations) + in_the_end_) * step <= left) return planned_;
  return std::min(planned_, done + steps_in(left, step, in_the_end_));
}

}  // namespace trireme::cli
