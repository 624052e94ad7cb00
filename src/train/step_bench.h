// Benchmark of training steps on random tokens: breakdown of the time, and the speed of the full
// step relative to its matrix products alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "train/engine/op_times.h"

namespace trireme {

struct StepBench {
  std::int64_t tokens = 0;       // per step
  double seconds = 0;            // median step
  double optimizer_seconds = 0;  // of a step: gradient norm and update
  std::vector<OpTime> ops;       // slowest first
  double linear_flops = 0;       // of linear layers, per step
  double attention_flops = 0;    // counted causally
  double linear_seconds = 0;     // in linear layers, per step
  double ceiling_seconds = 0;    // the same products alone, from operands in memory, per step
  std::int64_t planned_bytes = 0, peak_resident_bytes = 0;

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
  double linear_share() const { return linear_seconds / seconds; }
  // Speed of the step's linear flops over the full step, relative to the products alone.
  double of_ceiling() const { return ceiling_seconds / seconds; }
};

// `config` needs only its model, run and training sections; `steps` steps are timed after one
// warm-up step. Without `products_alone`, ceiling_seconds is not measured, which would take as long
// again. `tell`, if set, is called with progress messages.
StepBench bench_step(const Config& config, int steps, bool products_alone = true,
                     const std::function<void(const std::string&)>& tell = {});

}  // namespace trireme
