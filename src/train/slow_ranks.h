// Names the rank for which the others wait: from how long each rank's own work in a step takes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trireme {

struct SlowRank {
  int rank = 0;
  double seconds = 0;  // of its own work in a step
  double median = 0;   // of the ranks that have the same work
  int others = 0;      // further ranks that are slow
};

// "rank 3 (node7) is slow: ..."
std::string to_text(const SlowRank& slow, const std::string& host);

class SlowRanks {
 public:
  // Ranks are judged over windows of log intervals that last at least this long: a moment of other
  // work on a node is not reported, however short the steps are.
  explicit SlowRanks(double window_s = default_window_s()) : window_s_(window_s) {}

  // 30 seconds, or TRIREME_SLOW_RANK_SECONDS.
  static double default_window_s();

  // Over a log interval of this many steps: seconds of own work in a step and the pipeline stage,
  // by rank. Ranks are compared within their stage. A rank is slow where it needs a quarter more
  // than the median of a window and makes a step visibly longer. It is told where the window before
  // said so too: a rank that was disturbed once is not worth a line; and once, until it is no
  // longer slow. All ranks that pass the same get the same answer: of several the slowest.
  std::optional<SlowRank> judge(std::span<const double> seconds, std::span<const int> stages,
                                double step_seconds, std::int64_t steps = 1);

 private:
  std::optional<SlowRank> judge_window(std::span<const int> stages);

  double window_s_;
  // Sums over the steps of the window at hand.
  std::vector<double> own_seconds_;  // by rank
  double seconds_ = 0;
  std::int64_t steps_ = 0;
  std::vector<int> slow_before_;  // windows in a row, by rank
};

}  // namespace trireme
