// Branch and bound: layouts in ascending order of their time bound, until it exceeds the time of
// the best layouts found.
#include "plan/layout_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>

#include "base/counted.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "config/divisors.h"
#include "config/run_rules.h"
#include "plan/layout_bounds.h"
#include "plan/layout_memory.h"

namespace trireme {
namespace {

struct Bounded {
  const Layout* layout;
  double seconds = 0;
};

// Result of a fully planned layout.
struct Outcome {
  enum { refused, too_large, too_large_on_host, simulated } what = refused;
  FoundLayout found;
  std::int64_t on_host = 0;
};

class Search {
 public:
  Search(const Config& config, const RankSet& set, const Machine& machine,
         const SearchOptions& options)
      : config_(config),
        set_(set),
        machine_(machine),
        options_(options),
        stack_(find_stack("trireme")),
        costs_(costs_of_plan(config, machine, stack_)),
        bounds_(config, set.ranks, machine, &costs_) {
    result_.limit = usable_of(set.memory);
    result_.host_limit = usable_of(set.host);
  }

  LayoutSearch run(const LayoutSpace& space) {
    result_.counts.considered = static_cast<std::int64_t>(space.layouts.size());
    std::vector<Bounded> all;
    for (const Layout& layout : space.layouts) {
      const std::int64_t least = bounds_.memory(layout);
      keep_closest(layout, least);
      if (!options_.exhaustive && least > result_.limit) {
        ++result_.counts.too_large_at_least;
        continue;
      }
      all.push_back({&layout, options_.exhaustive ? 0 : bounds_.seconds(layout)});
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Bounded& a, const Bounded& b) { return a.seconds < b.seconds; });
    look_at(all);
    choose_by_guideline(space);
    return std::move(result_);
  }

 private:
  void keep_closest(const Layout& layout, std::int64_t needed) {
    if (result_.closest > 0 && needed >= result_.closest) return;
    result_.closest = needed;
    result_.closest_layout = layout;
  }

  void keep_closest_on_host(const Outcome& outcome) {
    ++result_.counts.too_large_on_host;
    if (result_.closest_on_host > 0 && outcome.on_host >= result_.closest_on_host) return;
    result_.closest_on_host = outcome.on_host;
    result_.closest_layout_on_host = outcome.found.layout;
  }

  // Evaluates layouts in parallel. Whether one is pruned depends only on those at least `ahead`
  // before it, not on thread timing.
  void look_at(const std::vector<Bounded>& all) {
    ThreadPool pool;
    const auto ahead = 4 * static_cast<std::size_t>(pool.size());
    std::vector<std::optional<Outcome>> outcomes(all.size());
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t next = 0, added = 0;
    bool over = false;
    const auto end = [&] {
      const std::lock_guard lock(mutex);
      over = true;
      changed.notify_all();
    };
    const auto take = [&]() -> std::optional<std::size_t> {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] {
        return over || next == all.size() || next < ahead || outcomes[next - ahead].has_value();
      });
      if (over || next == all.size()) return std::nullopt;
      if (next >= ahead) add(std::move(*outcomes[added++]));
      over = is_hopeless(all[next]);
      changed.notify_all();
      return over ? std::nullopt : std::optional(next++);
    };
    const auto work = [&] {
      while (const std::optional<std::size_t> mine = take()) {
        Outcome outcome = look_closely(*all[*mine].layout);
        const std::lock_guard lock(mutex);
        outcomes[*mine] = std::move(outcome);
        changed.notify_all();
      }
    };
    pool.run(pool.size(), [&](std::int64_t, int) {
      try {
        work();
      } catch (...) {
        end();  // releases the waiting threads
        throw;
      }
    });
    while (added < next) add(std::move(*outcomes[added++]));
    result_.counts.too_slow_at_least += static_cast<std::int64_t>(all.size() - next);
  }

  bool is_hopeless(const Bounded& one) const {
    return !options_.exhaustive && result_.best.size() == options_.kept &&
           one.seconds > result_.best.back().time.seconds;
  }

  Outcome look_closely(const Layout& layout) const {
    Outcome outcome;
    FoundLayout& found = outcome.found;
    found.layout = layout;
    const Config config = with_layout(config_, layout);
    try {
      check_run(config, set_.ranks);
      const LayoutMemory memory =
          layout_memory(config, set_, machine_.target, result_.limit, schedules_);
      found.needed = memory.needed;
      outcome.on_host = memory.on_host;
      if (!memory.fits(result_.limit, result_.host_limit)) {
        outcome.what =
            memory.needed > result_.limit ? Outcome::too_large : Outcome::too_large_on_host;
        return outcome;
      }
      found.time = plan_time(plan_layout(config, set_.ranks, machine_.target, schedules_), config,
                             machine_, stack_);
    } catch (const Error& error) {
      if (error.code() != ExitCode::bad_input) throw;
      return outcome;
    }
    if (found.time.refused.empty()) outcome.what = Outcome::simulated;
    return outcome;
  }

  void add(Outcome outcome) {
    if (outcome.what == Outcome::refused) ++result_.counts.refused;
    if (outcome.what == Outcome::too_large) ++result_.counts.too_large;
    if (outcome.what == Outcome::too_large_on_host) keep_closest_on_host(outcome);
    if (outcome.what != Outcome::simulated) return;
    ++result_.counts.simulated;
    std::vector<FoundLayout>& best = result_.best;
    const auto place = std::upper_bound(
        best.begin(), best.end(), outcome.found,
        [](const FoundLayout& a, const FoundLayout& b) { return a.time.seconds < b.time.seconds; });
    best.insert(place, std::move(outcome.found));
    if (best.size() > options_.kept) best.pop_back();
  }

  // A guideline specifies degrees only: other settings are the common defaults.
  void choose_by_guideline(const LayoutSpace& space) {
    const double parameters = static_cast<double>(parameter_count(config_.model));
    GuidelineChoice& choice = result_.guideline;
    choice.row = &guideline_for(parameters, set_.ranks);
    std::vector<const Layout*> tried;
    for (const Layout& layout : space.layouts) {
      const ParallelConfig& p = layout.parallel;
      if (p.tp == choice.row->tp && p.pp == choice.row->pp && p.cp == 1 && p.ep == 1 &&
          p.schedule == ScheduleKind::one_f_one_b && p.dp_replicate == 1 &&
          p.recompute_layers == 0 && layout.micro_batch_size == 1)
        tried.push_back(&layout);
    }
    const auto effort = [](const Layout* layout) {
      const ParallelConfig& p = layout->parallel;
      return std::pair(p.recompute == Recompute::full        ? 2
                       : p.recompute == Recompute::selective ? 1
                                                             : 0,
                       p.zero);
    };
    std::stable_sort(tried.begin(), tried.end(),
                     [&](const Layout* a, const Layout* b) { return effort(a) < effort(b); });
    for (const Layout* layout : tried) {
      if (bounds_.memory(*layout) > result_.limit) continue;
      Outcome outcome = look_closely(*layout);
      if (outcome.what != Outcome::simulated) continue;
      choice.found = std::move(outcome.found);
      return;
    }
    choice.why_not = tried.empty() ? fmt::format("is not possible for this model on {}",
                                                 counted(set_.ranks, "rank"))
                                   : "does not fit with any ZeRO stage and recomputation";
  }

  const Config& config_;
  const RankSet& set_;
  const Machine& machine_;
  const SearchOptions options_;
  const Stack& stack_;
  const CostModel costs_;
  LayoutBounds bounds_;
  const std::shared_ptr<PlannedSchedules> schedules_ = std::make_shared<PlannedSchedules>();
  LayoutSearch result_;
};

// The nearest numbers of ranks for which the model and the batch have a layout.
std::string ranks_that_work(const Config& config, const RankSet& set) {
  std::vector<int> found;
  for (const int step : {-1, 1}) {
    for (int ranks = set.ranks + step; ranks > 0 && ranks <= 2 * set.ranks + 8; ranks += step) {
      RankSet other = set;
      other.ranks = ranks;
      if (layout_space(config, other).layouts.empty()) continue;
      found.push_back(ranks);
      break;
    }
  }
  return found.empty() ? ""
                       : fmt::format("; the number of ranks can be {}", fmt::join(found, " or "));
}

[[noreturn]] void refuse_space(const Config& config, const RankSet& set, const LayoutSpace& space) {
  const std::int64_t batch = config.train.global_batch_size;
  const std::string others = ranks_that_work(config, set);
  if (!space.batch_units.empty())
    fail_input(
        "train.global_batch_size = {} is not possible with any layout on {}: with the smallest "
        "number of data-parallel ranks for this model it can be {}{}",
        batch, counted(set.ranks, "rank"), multiples_near(batch, space.batch_units.front()),
        others);
  fail_input("this model has no layout on {}: {}{}", counted(set.ranks, "rank"), space.refusal,
             others);
}

}  // namespace

double StepParts::exposed() const {
  return std::accumulate(waits.begin(), waits.end(), 0.0) -
         waits[static_cast<std::size_t>(TimeKind::pipeline)];
}

StepParts parts_of(const TimePlan& time) {
  StepParts parts;
  const auto positions = static_cast<double>(time.ranks.size());
  parts.idle = time.seconds;
  for (const RankTime& rank : time.ranks) {
    for (std::size_t k = 0; k < time_kinds; ++k) {
      parts.busy[k] += rank.busy[k] / positions;
      parts.waits[k] += rank.waits[k] / positions;
      parts.idle -= (rank.busy[k] + rank.waits[k]) / positions;
    }
  }
  return parts;
}

LayoutSearch search_layouts(const Config& config, const RankSet& set, const Machine& machine,
                            const SearchOptions& options) {
  TRIREME_CHECK(machine.speed.has_value());
  const LayoutSpace space = layout_space(config, set);
  if (space.layouts.empty()) refuse_space(config, set, space);
  return Search(config, set, machine, options).run(space);
}

int fewest_ranks(const Config& config, const RankSet& set, const Machine& machine) {
  constexpr std::int64_t most = 100'000;
  constexpr std::size_t tried = 4;
  const std::int64_t limit = usable_of(set.memory), host = usable_of(set.host);
  const int node = set.ranks_per_node;
  for (std::int64_t ranks = set.ranks / node * node + node; ranks <= most;
       ranks += ranks < 32 * node ? node : ranks / 2 / node * node) {
    RankSet other = set;
    other.ranks = static_cast<int>(ranks);
    const LayoutSpace space = layout_space(config, other);
    LayoutBounds bounds(config, other.ranks, machine, nullptr);
    std::vector<std::pair<std::int64_t, const Layout*>> fitting;
    for (const Layout& layout : space.layouts) {
      const std::int64_t least = bounds.memory(layout);
      if (least <= limit) fitting.emplace_back(least, &layout);
    }
    std::stable_sort(fitting.begin(), fitting.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < std::min(tried, fitting.size()); ++i) {
      const Config one = with_layout(config, *fitting[i].second);
      if (layout_memory(one, other, machine.target, limit).fits(limit, host)) return other.ranks;
    }
  }
  return 0;
}

}  // namespace trireme
