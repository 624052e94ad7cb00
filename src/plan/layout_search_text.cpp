// Formats the table of a search, with reasons.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "plan/layout_search.h"
#include "runtime/memory.h"

namespace trireme {
namespace {

std::string row(const std::string& name, const FoundLayout& found, const RankSet& set) {
  const TimePlan& time = found.time;
  const StepParts parts = parts_of(time);
  return fmt::format("{:>5} {:>10} {:>10.0f} {:>6.1f}% {:>11} {:>6.1f}% {:>8.1f}%  {}\n", name,
                     seconds_text(time.seconds), time.tokens_per_second(),
                     100 * time.utilization().uncut, bytes_to_text(found.needed),
                     100 * parts.bubble() / time.seconds, 100 * parts.exposed() / time.seconds,
                     layout_text(found.layout, set.ranks));
}

struct Difference {
  std::string what;
  double seconds;
};

// Parts of the step time in which `slower` differs, the largest difference first.
std::vector<Difference> differences(const FoundLayout& faster, const FoundLayout& slower) {
  const StepParts a = parts_of(faster.time), b = parts_of(slower.time);
  std::vector<Difference> all = {{"an idle pipeline", b.bubble() - a.bubble()}};
  for (std::size_t k = 0; k < time_kinds; ++k) {
    const auto kind = static_cast<TimeKind>(k);
    all.push_back({name_of(kind), b.busy[k] - a.busy[k]});
    if (kind != TimeKind::pipeline)
      all.push_back({fmt::format("waits for {}", name_of(kind)), b.waits[k] - a.waits[k]});
  }
  std::stable_sort(all.begin(), all.end(), [](const Difference& x, const Difference& y) {
    return std::abs(x.seconds) > std::abs(y.seconds);
  });
  return all;
}

// Explains in one sentence why the second layout is slower.
std::string reason(const FoundLayout& faster, const FoundLayout& slower) {
  const double more = slower.time.seconds - faster.time.seconds;
  std::string text = fmt::format("takes {} ({:.1f}%) longer", seconds_text(more),
                                 100 * more / faster.time.seconds);
  const std::vector<Difference> all = differences(faster, slower);
  const auto largest = [&](bool longer) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const Difference& one) {
      return longer ? one.seconds > 0 : one.seconds < 0;
    });
    return found == all.end() ? nullptr : &*found;
  };
  const Difference *loses = largest(true), *gains = largest(false);
  if (loses) text += fmt::format(": {} more for {}", seconds_text(loses->seconds), loses->what);
  if (loses && gains && -gains->seconds > 0.1 * loses->seconds)
    text += fmt::format(", against {} less for {}", seconds_text(-gains->seconds), gains->what);
  const std::int64_t bytes = slower.needed - faster.needed;
  return text + fmt::format("; it needs {} {} memory", bytes_to_text(std::abs(bytes)),
                            bytes > 0 ? "more" : "less");
}

std::string guideline_text(const LayoutSearch& search, const RankSet& set) {
  const Guideline& row = *search.guideline.row;
  std::string text =
      fmt::format("the usual choice by model size for {} on {}: tp {} pp {} dp {}", row.size,
                  counted(row.ranks, "GPU"), row.tp, row.pp, row.ranks / (row.tp * row.pp));
  if (!search.guideline.found) return text + "; here it " + search.guideline.why_not + "\n";
  const FoundLayout& found = *search.guideline.found;
  if (search.best.empty()) return text + '\n';
  return text + fmt::format("; here it {}\n  ({})\n", reason(search.best.front(), found),
                            layout_text(found.layout, set.ranks));
}

std::string counts_text(const SearchCounts& counts) {
  return fmt::format(
      "{} layouts: {} pruned for lack of memory, {} pruned as slower than those shown, {} need too "
      "much memory according to their plan{}, {} are invalid, {} were simulated\n",
      counts.considered, counts.too_large_at_least, counts.too_slow_at_least, counts.too_large,
      counts.too_large_on_host > 0
          ? fmt::format(", {} need too much host memory per node", counts.too_large_on_host)
          : "",
      counts.refused, counts.simulated);
}

}  // namespace

std::string to_text(const LayoutSearch& search, const Config& config, const RankSet& set) {
  if (search.best.empty()) return counts_text(search.counts);
  std::string text = fmt::format(
      "the fastest layouts on {}, {} tokens per step:\n{:>5} {:>10} {:>10} {:>7} {:>11} {:>7} "
      "{:>9}\n",
      counted(set.ranks, "device"), config.train.global_batch_size * config.model.seq_length, "",
      "step", "tokens/s", "MFU", "memory", "bubble", "messages");
  for (std::size_t i = 0; i < search.best.size(); ++i)
    text += row(std::to_string(i + 1), search.best[i], set);
  if (search.guideline.found) text += row("table", *search.guideline.found, set);
  const FoundLayout& first = search.best.front();
  text += fmt::format(
      "tokens/s: per device; MFU: counting attention to all positions; memory: of {} of a device's "
      "{};\nbubble: idle time of the pipeline; messages: all other waiting; times +-{:.0f}% "
      "({})\n{}\n",
      bytes_to_text(search.limit), bytes_to_text(set.memory), 100 * first.time.band,
      first.time.band_reason, end_of_band(first.time));
  if (search.best.size() > 1) text += "the second " + reason(first, search.best[1]) + '\n';
  return text + guideline_text(search, set) + counts_text(search.counts) + '\n' +
         layout_toml(first.layout);
}

}  // namespace trireme
