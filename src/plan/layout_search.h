// The fastest layouts that fit, of all that a model, a batch and a number of ranks can have: each
// one's memory as planned and its step as simulated, or a bound that shows that neither is needed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/guideline.h"
#include "plan/layout_space.h"
#include "plan/time_plan.h"

namespace trireme {

// Breakdown of a step's time, as the mean over the positions of the pipeline: kernels, waits of the
// device, and the rest. The parts add up to the step.
struct StepParts {
  TimeByKind busy{}, waits{};
  double idle = 0;  // before the first and after the last pass of a position

  // Bubble of the pipeline: nothing to compute, or waiting for one of its messages.
  double bubble() const { return idle + waits[static_cast<std::size_t>(TimeKind::pipeline)]; }
  double exposed() const;  // waits for all other messages
};
StepParts parts_of(const TimePlan& time);

struct FoundLayout {
  Layout layout;
  std::int64_t needed = 0;  // bytes of the rank that needs most
  TimePlan time;
};

// Number of layouts by outcome. The outcomes add up to `considered`.
struct SearchCounts {
  std::int64_t considered = 0;
  std::int64_t too_large_at_least = 0;  // by the bound on memory
  std::int64_t too_slow_at_least = 0;   // by the bound on time
  std::int64_t too_large = 0;           // as planned
  std::int64_t too_large_on_host = 0;   // of a node of GPUs
  std::int64_t refused = 0;             // by the rules of a run, or by the model of time
  std::int64_t simulated = 0;
};

// The row of the tables, with the gentlest ZeRO stage and recomputation with which it fits.
struct GuidelineChoice {
  const Guideline* row = nullptr;
  std::optional<FoundLayout> found;
  std::string why_not;  // where nothing is found
};

struct LayoutSearch {
  std::vector<FoundLayout> best;  // fastest first
  SearchCounts counts;
  GuidelineChoice guideline;
  std::int64_t limit = 0;       // bytes that a rank may need
  std::int64_t host_limit = 0;  // bytes that the ranks of a node may keep on its host; 0: any
  // If nothing fits: the needs of the smallest layout; and among those that fit into devices, the
  // least that one keeps on a host, or 0.
  std::int64_t closest = 0, closest_on_host = 0;
  Layout closest_layout, closest_layout_on_host;
};

struct SearchOptions {
  std::size_t kept = 5;     // layouts
  bool exhaustive = false;  // every layout is planned and simulated: to check the bounds
};

// Part of a device's memory that a layout may fill, and of a host's: drivers, libraries and other
// programs want some too.
inline constexpr double usable_memory = 0.95;
constexpr std::int64_t usable_of(std::int64_t memory) {
  return static_cast<std::int64_t>(usable_memory * static_cast<double>(memory));
}

// `config` is valid, has its global batch and knows its vocabulary; `machine` has figures. Fails
// (exit code 2) if the model and the batch have no layout on this many ranks, and says what would.
LayoutSearch search_layouts(const Config& config, const RankSet& set, const Machine& machine,
                            const SearchOptions& options = {});

// The smallest number of ranks, whole nodes of them, on which a layout fits; 0: none up to a
// hundred thousand.
int fewest_ranks(const Config& config, const RankSet& set, const Machine& machine);

// Formats the result as `trireme plan --search` prints it.
std::string to_text(const LayoutSearch& search, const Config& config, const RankSet& set);

}  // namespace trireme
