// Number of `trireme try` steps that fit into its time: planned, then adjusted during the run.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::cli {

// Steps that fit into `seconds`, with a reserve for other load on the machine. Evaluations during
// the run come in addition; the work after the last step costs as much as `in_the_end` steps.
std::int64_t steps_in(double seconds, double seconds_of_step, double in_the_end);

class TryPace {
 public:
  explicit TryPace(double in_the_end) : in_the_end_(in_the_end) {}

  // Starts the run, or continues it with fewer steps: its next step includes one-time setup and
  // is not counted.
  void plan(std::int64_t steps);

  // Adds the duration of a step.
  void add(double seconds);

  // Total number of steps of the run after `done` steps with `left` seconds remaining: the planned
  // number, or fewer if recent steps were too slow. A machine that is slow for some seconds only
  // costs few steps: the last steps are those of a share of the remaining time.
  std::int64_t fitting(std::int64_t done, double left) const;

 private:
  double recent_step(double window) const;

  std::int64_t planned_ = 0;
  double in_the_end_;
  bool first_ = true;
  std::vector<double> seconds_;  // of all steps
};

}  // namespace trireme::cli
