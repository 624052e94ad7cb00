// Search for the fastest layouts that fit, among all for a model, a batch and a number of ranks:
// each layout is planned and simulated, unless a bound shows that this is unnecessary.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/guideline.h"
#include "plan/layout_space.h"
#include "plan/time_plan.h"

namespace trireme {

// Breakdown of step time, averaged over pipeline positions: kernels, waits of the device, and the
// rest. The parts add up to the step time.
struct StepParts {
  TimeByKind busy{}, waits{};
  double idle = 0;  // before the first and after the last pass of a position

  // Pipeline bubble: no work to do, or waiting for a pipeline message.
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

// A guideline's row, with the lowest ZeRO stage and least recomputation with which it fits.
struct GuidelineChoice {
  const Guideline* row = nullptr;
  std::optional<FoundLayout> found;
  std::string why_not;  // if no layout was found
};

struct LayoutSearch {
  std::vector<FoundLayout> best;  // fastest first
  SearchCounts counts;
  GuidelineChoice guideline;
  std::int64_t limit = 0;       // bytes that a rank may need
  std::int64_t host_limit = 0;  // host memory limit for the ranks of a node; 0: none
  // If nothing fits: the memory of the smallest layout; and among those that fit into device
  // memory, the smallest host memory, or 0.
  std::int64_t closest = 0, closest_on_host = 0;
  Layout closest_layout, closest_layout_on_host;
};

struct SearchOptions {
  std::size_t kept = 5;     // layouts
  bool exhaustive = false;  // plans and simulates every layout: to test the bounds
};

// Share of device and host memory that a layout may use; drivers, libraries and other programs need
// the rest.
inline constexpr double usable_memory = 0.95;
constexpr std::int64_t usable_of(std::int64_t memory) {
  return static_cast<std::int64_t>(usable_memory * static_cast<double>(memory));
}

// `config` must be valid with known global batch and vocabulary; `machine` must have figures. Fails
// (exit code 2), with a suggestion, if the model and the batch have no layout on this many ranks.
LayoutSearch search_layouts(const Config& config, const RankSet& set, const Machine& machine,
                            const SearchOptions& options = {});

// Returns the smallest number of ranks, in whole nodes, on which a layout fits; 0: none up to a
// hundred thousand.
int fewest_ranks(const Config& config, const RankSet& set, const Machine& machine);

// Formats the result as `trireme plan --search` prints it.
std::string to_text(const LayoutSearch& search, const Config& config, const RankSet& set);

}  // namespace trireme
