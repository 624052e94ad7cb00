// Duration of a planned step: replays the plan's records on a model of the machine.
#pragma once

#include <string>
#include <vector>

#include "plan/layout_plan.h"
#include "plan/machine.h"
#include "plan/timing/replay.h"
#include "plan/timing/stack.h"

namespace trireme {

// Model flops utilization: flops over step time and peak of all devices, by several definitions.
struct Utilization {
  double necessary = 0;  // no recomputation, causal attention
  double uncut = 0;      // full attention (not halved): Megatron-LM, torchtitan
  double recomputed =
      0;                // the same, a forward pass more with full recomputation: Megatron's counter
  double executed = 0;  // flops executed by the kernels
};

struct TimePlan {
  const Stack* stack = nullptr;
  std::string machine;
  // Why the time cannot be predicted; empty: it can.
  std::string refused;
  double memory_share = 0;  // of a device, for the rank that needs most
  double seconds = 0;       // of a step
  double samples = 0;       // of a step
  double tokens = 0;
  int devices = 0;
  double flops = 0, uncut_flops = 0, recomputed_flops = 0, executed_flops = 0;  // of a step
  double peak = 0;                                                              // of a device
  TimeByKind path{};            // time by kind along the critical path
  std::vector<RankTime> ranks;  // by pipeline position
  double bubble = 0;            // share of rank-time without computation
  double expert_round = 0;      // of a layer forward, where several ranks share experts
  double efficiency = 1;        // as fitted
  double band = 0;              // expected relative error
  std::string band_reason;
  // Largest number of devices for which the band is verified; 0: unknown, or not exceeded.
  int band_devices = 0;
  double beyond = 0;  // relative excess of a published larger run; 0: none

  double samples_per_second() const { return samples / seconds; }
  double tokens_per_second() const { return tokens / seconds / devices; }  // of a device
  double flops_rate() const { return uncut_flops / seconds / devices; }    // of a device
  Utilization utilization() const;
};

// `efficiency`: of kernels; 0: as fitted for the machine and stack.
TimePlan plan_time(const LayoutPlan& plan, const Config& config, const Machine& machine,
                   const Stack& stack, double efficiency = 0);

// The cost model used. `machine` and `stack` must outlive it; the machine must have figures for the
// precision.
CostModel costs_of_plan(const Config& config, const Machine& machine, const Stack& stack);

// Formats "1.234 s", "12.34 ms".
std::string seconds_text(double seconds);

// A note that the error band is not verified for this time; "" if it is.
std::string end_of_band(const TimePlan& time);
// Formats the plan as `trireme plan` prints it.
std::string to_text(const TimePlan& time);

// Trace of the simulated step; of a long, periodic step, with few loop iterations.
std::string trace_of(const LayoutPlan& plan, const Config& config, const Machine& machine,
                     const Stack& stack);

}  // namespace trireme
