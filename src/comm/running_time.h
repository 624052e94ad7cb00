// A clock for time limits: it counts the time during which a thread polls it, without the time for
// which the process was suspended.
#pragma once

#include <algorithm>
#include <chrono>

namespace trireme {

// Measures time without suspensions: a job that was stopped as a whole (scontrol suspend, docker
// pause, a closed laptop) must not conclude on resuming that all ranks have timed out. Query it
// often: a gap between two queries counts as at most `longest_gap`.
class RunningTime {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds longest_gap{1000};

  // Seconds since construction.
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
