// Duration of a planned step: replays the plan's records on a model of the machine.
#pragma once

#include <string>
#include <vector>

#include "plan/layout_plan.h"
#include "plan/machine.h"
#include "plan/timing/replay.h"
#include "plan/timing/stack.h"

namespace trireme {

// Flops of a step over its time and the peak of all devices, as others count them.
struct Utilization {
  double necessary = 0;  // no recomputation, attention to earlier positions only
  double uncut = 0;      // attention as if every position saw all: Megatron-LM, torchtitan
  double recomputed =
      0;                // the same, a forward pass more with full recomputation: Megatron's counter
  double executed = 0;  // what the kernels do
};

struct TimePlan {
  const Stack* stack = nullptr;
  std::string machine;
  // Why there is no time; empty: there is one.
  std::string refused;
  double memory_share = 0;  // of a device, of the rank that needs most
  double seconds = 0;       // of a step
  double samples = 0;       // of a step
  double tokens = 0;
  int devices = 0;
  double flops = 0, uncut_flops = 0, recomputed_flops = 0, executed_flops = 0;  // of a step
  double peak = 0;                                                              // of a device
  TimeByKind path{};            // what the step's chain of work goes to
  std::vector<RankTime> ranks;  // by pipeline position
  double bubble = 0;            // share of rank-time in which nothing is computed
  double expert_round = 0;      // of a layer forward, where several ranks share experts
  double efficiency = 1;        // as fitted
  double band = 0;              // the error to expect, as a share
  std::string band_reason;
  // Above this many devices nothing shows that the band holds; 0: not known, or not exceeded.
  int band_devices = 0;
  double beyond = 0;  // what a published run of more devices took longer than predicted; 0: no such

  double samples_per_second() const { return samples / seconds; }
  double tokens_per_second() const { return tokens / seconds / devices; }  // of a device
  double flops_rate() const { return uncut_flops / seconds / devices; }    // of a device
  Utilization utilization() const;
};

// `efficiency`: that of kernels; 0: as fitted for machine and stack.
TimePlan plan_time(const LayoutPlan& plan, const Config& config, const Machine& machine,
                   const Stack& stack, double efficiency = 0);

// The costs that it counts with. `machine` and `stack` outlive them; the machine has figures for
// the precision.
CostModel costs_of_plan(const Config& config, const Machine& machine, const Stack& stack);

// "1.234 s", "12.34 ms".
std::string seconds_text(double seconds);

// A line that says where the band ends, for a time beyond it; "" else.
std::string end_of_band(const TimePlan& time);
// Formats the plan as `trireme plan` prints it.
std::string to_text(const TimePlan& time);

// The simulated step; of a long one, which repeats itself, with few turns of its schedule.
std::string trace_of(const LayoutPlan& plan, const Config& config, const Machine& machine,
                     const Stack& stack);

}  // namespace trireme
