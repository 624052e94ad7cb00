// A clock for limits: it counts the time in which a thread looks at it, and not the time in which
// the process was suspended.
#pragma once

#include <algorithm>
#include <chrono>

namespace trireme {

// Measures time without suspensions: a job that is stopped as a whole (scontrol suspend, docker
// pause, a closed laptop) and resumes later must not conclude that everyone has waited too long.
// Query it often: a gap between two queries counts as `longest_gap` at most.
class RunningTime {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds longest_gap{1000};

  // Since the object was made.
  double seconds(Clock::time_point now = Clock::now()) {
    counted_ += std::min<Clock::duration>(now - last_, longest_gap);
    last_ = now;
    return std::chrono::duration<double>(counted_).count();
  }

 private:
  Clock::time_point last_ = Clock::now();
  Clock::duration counted_{};
};

}  // namespace trireme
