// A clock for limits: it counts the time in which a thread looks at it, and not the time in which
// the process was suspended.
#pragma once

#include <algorithm>
#include <chrono>

namespace trireme {

// A job that is stopped as a whole (scontrol suspend, docker pause, a closed laptop) and goes on
// later must not find that everybody has waited for too long. To be asked often: a gap between two
// questions counts as `longest_gap` at most.
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
