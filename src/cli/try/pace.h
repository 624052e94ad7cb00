// Number of `trireme try` steps that fit into its time: planned, then adjusted during the run.
#pragma once

#include <cstdint>
#include <deque>

namespace trireme::cli {

// Steps that fit into `seconds`, with a reserve for other load on the machine. Evaluations during
// the run come in addition; the work after the last step costs as much as `in_the_end` steps.
std::int64_t steps_in(double seconds, double seconds_of_step, double in_the_end);

class TryPace {
 public:
  TryPace(std::int64_t planned, double in_the_end) : planned_(planned), in_the_end_(in_the_end) {}

  // Adds the duration of a step. The first step is ignored, since it includes one-time setup.
  void add(double seconds);

  // Total number of steps of the run after `done` steps with `left` seconds remaining: the planned
  // number, or fewer if recent steps were too slow.
  std::int64_t fitting(std::int64_t done, double left) const;

 private:
  std::int64_t planned_;
  double in_the_end_;
  bool first_ = true;
  std::deque<double> seconds_;  // of the last steps
};

}  // namespace trireme::cli
