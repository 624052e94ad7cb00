// Detection of the rank that slows down a job, from each rank's own work time per step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trireme {

struct SlowRank {
  int rank = 0;
  double seconds = 0;  // own work time per step
  double median = 0;   // of the ranks that do the same work
  int others = 0;      // number of other slow ranks
};

// "rank 3 (node7) is slow: ..."
std::string to_text(const SlowRank& slow, const std::string& host);

class SlowRanks {
 public:
  // Ranks are judged over windows of log intervals that together last at least this long, so that
  // brief disturbances on a node are not reported, however short the steps are.
  explicit SlowRanks(double window_s = default_window_s()) : window_s_(window_s) {}

  // 30 seconds, or TRIREME_SLOW_RANK_SECONDS.
  static double default_window_s();

  // Adds a log interval of this many steps: seconds of own work per step and pipeline stage, by
  // rank. Ranks are compared within their stage. A rank is slow if it takes 25% longer than the
  // median of a window and noticeably lengthens a step. It is reported if the previous window found
  // it slow too, to ignore one-time disturbances; and only once, until it recovers. Deterministic:
  // the same arguments give the same result on all ranks; of several slow ranks, the slowest.
  std::optional<SlowRank> judge(std::span<const double> seconds, std::span<const int> stages,
                                double step_seconds, std::int64_t steps = 1);

 private:
  std::optional<SlowRank> judge_window(std::span<const int> stages);

  double window_s_;
  // Sums over the steps of the current window.
  std::vector<double> own_seconds_;  // by rank
  double seconds_ = 0;
  std::int64_t steps_ = 0;
  std::vector<int> slow_before_;  // number of consecutive windows, by rank
};

}  // namespace trireme
