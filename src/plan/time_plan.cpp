// Replays the recorded steps, and extrapolates their loops.
#include "plan/time_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/counted.h"
#include "base/error.h"

namespace trireme {
namespace {

// Above this share of a device's memory, other stacks' allocators free and remap memory, and
// fragmentation dominates: no model predicts the time of that.
constexpr double fullest = 0.95;
// A foreign host that is late for more than this share of the step determines the step time.
constexpr double latest_host = 0.02;

bool is_wide(const Config& config) {
  return config.run.precision == Precision::fp32 || config.run.precision == Precision::fp64;
}

const Fit* fit_of(const MachineSpeed& speed, const std::string& name) {
  for (const Fit& fit : speed.fits)
    if (fit.stack == name) return &fit;
  return nullptr;
}

bool is_of_states(const std::string& region) {
  return region.starts_with("master") || region.find("moment") != std::string::npos;
}

// Memory of a region in the stack, relative to the planned memory.
double share_of(const std::string& region, const Stack& stack) {
  if (region == "gradients" || region == "gradient sums") return stack.gradient_memory;
  if (region == "saved activations") return stack.activation_memory;
  if (!is_of_states(region)) return 1;
  return region.starts_with("master") ? stack.master_memory : stack.moment_memory;
}

// Memory that a rank would need with the stack.
double memory_of(const RankPlan& rank, const LayoutPlan& plan, const Config& config,
                 const Stack& stack) {
  double bytes = stack.runtime_memory;
  if (rank.pipeline_rank + 1 == static_cast<int>(plan.ranks.size())) {
    const std::int64_t positions = config.train.micro_batch_size * config.model.seq_length;
    bytes += stack.logit_memory * static_cast<double>(positions * config.model.vocab_size) /
             static_cast<double>(config.parallel.tp * config.parallel.cp);
  }
  for (const MemoryRegion& region : rank.memory.regions)
    bytes += share_of(region.name, stack) * static_cast<double>(region.bytes);
  return bytes;
}

// Memory independent of allocators and micro-batches: weights, gradients and states.
double lasting_memory_of(const RankPlan& rank, const Stack& stack) {
  double bytes = 0;
  for (const MemoryRegion& region : rank.memory.regions) {
    const bool lasts = region.name == "parameters" || region.name == "gradients" ||
                       region.name == "gradient sums" || is_of_states(region.name);
    if (lasts) bytes += share_of(region.name, stack) * static_cast<double>(region.bytes);
  }
  return bytes;
}

void count_flops(const LayoutPlan& plan, const Config& config, TimePlan& time) {
  const ModelConfig& m = config.model;
  time.uncut_flops = plan.flops;
  time.flops = plan.flops;
  // With a causal mask only half of the counted attention flops are required.
  time.flops -= plan.causal_share * plan.tokens * attention_flops_per_token(m) / 2;
  time.recomputed_flops =
      time.uncut_flops * (config.parallel.recompute == Recompute::full ? 4.0 / 3.0 : 1.0);
  double executed = 0;
  for (const RankPlan& rank : plan.ranks) executed += rank.flops;
  time.executed_flops = executed * time.devices / static_cast<double>(plan.ranks.size());
}

std::vector<const Record*> programs_of(const LayoutPlan& plan, bool shorter) {
  std::vector<const Record*> programs;
  for (const RankPlan& rank : plan.ranks)
    programs.push_back(shorter ? &rank.shorter : &rank.program);
  return programs;
}

void extend(TimeByKind& a, const TimeByKind& shorter, double turns) {
  for (std::size_t k = 0; k < time_kinds; ++k) a[k] += turns * (a[k] - shorter[k]);
}

// Replays the full step: each additional loop iteration takes as long as the last one.
Replay replay_step(const LayoutPlan& plan, const CostModel& costs) {
  Replay step = replay(programs_of(plan, false), costs);
  if (plan.further_turns == 0) return step;
  const Replay one = replay(programs_of(plan, true), costs);
  const double turns = plan.further_turns;
  step.end.at += turns * (step.end.at - one.end.at);
  extend(step.end.path, one.end.path, turns);
  for (std::size_t p = 0; p < step.ranks.size(); ++p) {
    RankTime& rank = step.ranks[p];
    rank.end += turns * (rank.end - one.ranks[p].end);
    extend(rank.busy, one.ranks[p].busy, turns);
    extend(rank.waits, one.ranks[p].waits, turns);
  }
  return step;
}

double sum(const TimeByKind& times) {
  double all = 0;
  for (const double one : times) all += one;
  return all;
}

// Sets the number of devices up to which published runs support a fit, for larger runs.
void set_end_of_band(const Fit& fit, TimePlan& time) {
  if (fit.devices == 0 || time.devices <= fit.devices) return;
  time.band_devices = std::max(time.band_devices, fit.devices);
  time.beyond = std::max(time.beyond, fit.beyond);
}

// A fit from another stack is less reliable than one from the same stack.
void set_efficiency(const Machine& machine, const Stack& stack, bool wide, double given,
                    TimePlan& time) {
  const MachineSpeed& speed = *machine.speed;
  const auto of = [&](const Fit& fit) {
    return wide && fit.wide_efficiency > 0 ? fit.wide_efficiency : fit.efficiency;
  };
  if (given > 0) {
    time.efficiency = given;
    time.band = 0.08;
    time.band_reason = "the efficiency was given";
  } else if (const Fit* fit = fit_of(speed, stack.fit)) {
    time.efficiency = of(*fit);
    time.band = fit->band;
    time.band_reason = fmt::format("kernels at {:.2f} times the modeled speed, fitted to {}",
                                   time.efficiency, fit->from);
    set_end_of_band(*fit, time);
  } else if (!speed.fits.empty()) {
    double mean = 0;
    for (const Fit& other : speed.fits) mean += of(other) / static_cast<double>(speed.fits.size());
    time.efficiency = mean;
    time.band = 0.2;
    time.band_reason = fmt::format(
        "kernels at {:.2f} times the modeled speed, the mean of other software stacks on this "
        "machine; {} was never measured on it",
        mean, stack.name);
    for (const Fit& other : speed.fits) set_end_of_band(other, time);
  } else {
    time.band = 0.3;
    time.band_reason = "no fitted efficiency exists for this machine";
  }
}

// Devices of one kind differ in speed, and a step waits for the slowest: about the maximum of this
// many normal deviates: 0.7 for two, 1.5 for eight, 3.3 for a thousand.
double deviation_of_slowest(int devices) {
  if (devices < 2) return 0;
  const double root = std::sqrt(2 * std::log(devices));
  return root - (std::log(std::log(devices)) + std::log(4 * std::numbers::pi)) / (2 * root) +
         std::numbers::egamma / root;
}

CostModel costs_for(const Config& config, const Machine& machine, const Stack& stack,
                    double efficiency, int devices = 1) {
  const double slowest = 1 + machine.speed->spread * deviation_of_slowest(devices);
  return {*machine.speed, stack, efficiency / slowest, is_wide(config)};
}

// Time of one round of another rank's rows in the forward pass of a layer: with balanced load each
// turn has one round, and the first turn needs no messages.
double expert_round(const LayoutPlan& plan, const Config& config, const CostModel& costs) {
  const auto ranks = static_cast<double>(config.parallel.ep * config.parallel.expert_tp);
  double launches = 0, computing = 0, traveling = 0;
  for (const RankPlan& rank : plan.ranks) {
    rank.program.for_each([&](const RecordedWork& work, std::int64_t times) {
      if (std::string_view(work.op) != "remote_experts") return;
      const auto count = static_cast<double>(times);
      if (work.kind != RecordedWork::Kind::message) {
        computing += count * costs.work(work);
      } else if (work.message == MessageKind::all_gather) {
        launches += count;
      } else {
        traveling += count * costs.message(work, rank.program.group_of(work));
      }
    });
  }
  if (launches == 0) return 0;
  return (computing / ranks + traveling / (ranks - 1)) / launches;
}

}  // namespace

Utilization TimePlan::utilization() const {
  const double all = seconds * devices * peak;
  return {flops / all, uncut_flops / all, recomputed_flops / all, executed_flops / all};
}

TimePlan plan_time(const LayoutPlan& plan, const Config& config, const Machine& machine,
                   const Stack& stack, double efficiency) {
  TRIREME_CHECK(machine.speed.has_value());
  const MachineSpeed& speed = *machine.speed;
  TimePlan time;
  time.stack = &stack;
  time.machine = machine.name;
  time.devices = plan.mesh.size();
  time.tokens = plan.tokens;
  time.samples = plan.tokens / static_cast<double>(config.model.seq_length);
  const ProductRate& rate = is_wide(config) ? speed.fp32 : speed.bf16;
  if (rate.peak == 0 || config.run.precision == Precision::fp64) {
    time.refused =
        fmt::format("the machine file has no figures for GEMMs in {}", config.run.precision);
    return time;
  }
  if (plan.mesh.size() > speed.devices && speed.nics == 0) {
    time.refused =
        fmt::format("the machine file has no [network], but {} ranks do not fit on a node of {}",
                    plan.mesh.size(), speed.devices);
    return time;
  }
  double lasting = 0;
  for (const RankPlan& rank : plan.ranks) {
    time.memory_share =
        std::max(time.memory_share, memory_of(rank, plan, config, stack) / speed.memory_bytes);
    lasting = std::max(lasting, lasting_memory_of(rank, stack) / speed.memory_bytes);
  }
  if (time.memory_share > fullest) {
    time.refused =
        fmt::format("a rank needs {:.1f}% of the device's memory", 100 * time.memory_share);
    if (time.memory_share <= 1)
      time.refused += ": it fits, but above 95% the step time depends on the allocator";
    else
      time.refused +=
          fmt::format(", {:.1f}% for weights, gradients and optimizer states only{}", 100 * lasting,
                      lasting > 1 ? ": a run with this layout cannot have taken place" : "");
    return time;
  }
  time.peak = rate.peak;
  count_flops(plan, config, time);
  set_efficiency(machine, stack, is_wide(config), efficiency, time);
  const CostModel costs = costs_for(config, machine, stack, time.efficiency, plan.mesh.size());
  const Replay step = replay_step(plan, costs);
  time.expert_round = expert_round(plan, config, costs);
  time.seconds = step.end.at;
  time.path = step.end.path;
  time.ranks = step.ranks;
  double busy = 0;
  for (const RankTime& rank : step.ranks) busy += sum(rank.busy);
  time.bubble = 1 - busy / (time.seconds * static_cast<double>(step.ranks.size()));
  const double late = time.path[static_cast<std::size_t>(TimeKind::host)] / time.seconds;
  if (!stack.is_own() && late > latest_host)
    time.refused =
        fmt::format("the host of {} delays {:.0f}% of the step, which the model does not cover",
                    stack.name, 100 * late);
  return time;
}

CostModel costs_of_plan(const Config& config, const Machine& machine, const Stack& stack) {
  TimePlan time;
  set_efficiency(machine, stack, is_wide(config), 0, time);
  return costs_for(config, machine, stack, time.efficiency);
}

std::string trace_of(const LayoutPlan& plan, const Config& config, const Machine& machine,
                     const Stack& stack) {
  TimePlan time;
  set_efficiency(machine, stack, is_wide(config), 0, time);
  const CostModel costs = costs_for(config, machine, stack, time.efficiency, plan.mesh.size());
  return chrome_trace(replay(programs_of(plan, false), costs, true));
}

std::string seconds_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3)
                         : fmt::format("{:.1f} us", seconds * 1e6);
}

namespace {

// Breakdown of a rank's time: computing, waiting, idle at the ends.
std::string rank_table(const TimePlan& time) {
  constexpr std::size_t room = 6;
  const std::size_t count = time.ranks.size();
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < std::min(count, room); ++i)
    shown.push_back(count <= room ? i : i * (count - 1) / (room - 1));
  std::string text = fmt::format("{:<28}", "share of the step");
  for (const std::size_t p : shown) text += fmt::format(" {:>9}", fmt::format("pp {}", p));
  text += '\n';
  const auto row = [&](const std::string& name, const auto& value) {
    bool any = false;
    std::string line = fmt::format("  {:<26}", name);
    for (const std::size_t p : shown) {
      const double share = value(time.ranks[p]) / time.seconds;
      any |= share >= 0.0005;
      line += fmt::format(" {:>8.1f}%", 100 * share);
    }
    if (any) text += line + '\n';
  };
  for (std::size_t k = 0; k < time_kinds; ++k) {
    const std::string name = name_of(static_cast<TimeKind>(k));
    row(name, [&](const RankTime& rank) { return rank.busy[k]; });
    row("waits for " + name, [&](const RankTime& rank) { return rank.waits[k]; });
  }
  return text;
}

}  // namespace

std::string end_of_band(const TimePlan& time) {
  if (time.band_devices == 0) return "";
  std::string text = fmt::format(
      "  the error band is validated up to {}: no larger published run was predicted within "
      "it",
      counted(time.band_devices, "device"));
  if (time.beyond > 0)
    text += fmt::format("; one took {:.0f}% longer than predicted", 100 * time.beyond);
  return text + ", so this is a lower bound of the step time\n";
}

std::string to_text(const TimePlan& time) {
  std::string who = "on " + time.machine;
  if (!time.stack->is_own()) who += fmt::format(", with {}", time.stack->name);
  if (!time.refused.empty()) return fmt::format("time: none {}: {}\n", who, time.refused);
  std::string text = fmt::format(
      "time: {} per step {}, +-{:.0f}% ({})\n"
      "  {:.3f} samples/s, {:.0f} tokens/s per device, {:.1f} TFLOP/s per device\n",
      seconds_text(time.seconds), who, 100 * time.band, time.band_reason, time.samples_per_second(),
      time.tokens_per_second(), time.flops_rate() / 1e12);
  text += end_of_band(time);
  const Utilization u = time.utilization();
  text += fmt::format(
      "  MFU {:.1f}% (causal attention), {:.1f}% (attention to all positions, as Megatron-LM and "
      "torchtitan count), {:.1f}% with full recomputation counted too; {:.1f}% of the peak "
      "executed\n",
      100 * u.necessary, 100 * u.uncut, 100 * u.recomputed, 100 * u.executed);
  if (time.expert_round > 0)
    text += fmt::format("  experts: one round of a layer takes {} in the forward pass\n",
                        seconds_text(time.expert_round));
  text += "  critical path:";
  for (std::size_t k = 0; k < time_kinds; ++k) {
    if (time.path[k] >= 0.0005 * time.seconds)
      text += fmt::format(" {} {:.1f}%", name_of(static_cast<TimeKind>(k)),
                          100 * time.path[k] / time.seconds);
  }
  return text + '\n' + rank_table(time);
}

}  // namespace trireme
