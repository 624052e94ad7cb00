// Medians by stage, and counts of slow windows.
#include "train/watch/slow_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/counted.h"

namespace trireme {
namespace {

constexpr double slow_factor = 1.25;   // of the median
constexpr double visible_share = 0.1;  // of a step
constexpr double visible_s = 0.01;  // smaller delays cannot be told apart from other work on a node
constexpr int windows_until_told = 2;

// Median by stage; for an even number the lower median, so that of two ranks the slower one is
// compared with the faster one.
std::map<int, double> medians(std::span<const double> seconds, std::span<const int> stages) {
  std::map<int, std::vector<double>> by_stage;
  for (std::size_t r = 0; r < seconds.size(); ++r) by_stage[stages[r]].push_back(seconds[r]);
  std::map<int, double> medians;
  for (auto& [stage, values] : by_stage) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::ranges::nth_element(values, middle);
    medians[stage] = *middle;
  }
  return medians;
}

}  // namespace

std::string to_text(const SlowRank& slow, const std::string& host) {
  std::string text = fmt::format(
      "rank {} ({}) is slow: its own work takes {:.3g} s per step, {:.2f} times the median of the "
      "ranks with the same work ({:.3g} s), which wait for it",
      slow.rank, host, slow.seconds, slow.seconds / slow.median, slow.median);
  if (slow.others > 0) text += fmt::format("; {} more are as slow", counted(slow.others, "rank"));
  return text;
}

double SlowRanks::default_window_s() {
  const char* const text = std::getenv("TRIREME_SLOW_RANK_SECONDS");
  char* end = nullptr;
  const double seconds = text ? std::strtod(text, &end) : 0;
  return seconds > 0 && *end == '\0' ? seconds : 30;
}

std::optional<SlowRank> SlowRanks::judge(std::span<const double> seconds,
                                         std::span<const int> stages, double step_seconds,
                                         std::int64_t steps) {
  own_seconds_.resize(seconds.size());
  for (std::size_t r = 0; r < seconds.size(); ++r)
    own_seconds_[r] += seconds[r] * static_cast<double>(steps);
  seconds_ += step_seconds * static_cast<double>(steps);
  steps_ += steps;
  if (steps_ == 0 || seconds_ < window_s_) return std::nullopt;
  const std::optional<SlowRank> slow = judge_window(stages);
  own_seconds_.clear();
  seconds_ = 0;
  steps_ = 0;
  return slow;
}

std::optional<SlowRank> SlowRanks::judge_window(std::span<const int> stages) {
  const auto steps = static_cast<double>(steps_);
  const double step_seconds = seconds_ / steps;
  std::vector<double> seconds = own_seconds_;
  for (double& own : seconds) own /= steps;
  slow_before_.resize(seconds.size());
  const std::map<int, double> middle = medians(seconds, stages);
  std::optional<SlowRank> slowest;
  int told = 0;
  for (std::size_t r = 0; r < seconds.size(); ++r) {
    const double median = middle.at(stages[r]);
    const bool slow = seconds[r] > slow_factor * median &&
                      seconds[r] - median > std::max(visible_s, visible_share * step_seconds);
    slow_before_[r] = slow ? slow_before_[r] + 1 : 0;
    if (slow_before_[r] != windows_until_told) continue;
    ++told;
    if (!slowest || seconds[r] > slowest->seconds)
      slowest = {static_cast<int>(r), seconds[r], median, 0};
  }
  if (slowest) slowest->others = told - 1;
  return slowest;
}

}  // namespace trireme
