// A few training steps on a layout whose ranks are threads of this process, and what they compute.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "comm/transport.h"
#include "compare/step_values.h"
#include "config/config.h"
#include "train/engine/engine.h"

namespace trireme {

struct LayoutRun {
  std::optional<Mesh> mesh;
  double loss_scale = 1;                       // of the gradients in `steps`
  std::vector<double> losses, norms;           // by step
  std::vector<std::vector<StepValues>> steps;  // by step, then by rank

  LayoutRun(int ranks, int number_of_steps);
};

// Runs the steps of one rank, on random tokens that do not depend on the layout, at the constant
// learning rate optimizer.lr. Calls `before_step`, if there is one, before each step. Collective.
void run_rank(const Config& config, Transport& transport, LayoutRun& run,
              const std::function<void()>& before_step = {});

// The configuration must be valid for that many ranks, its vocabulary known.
LayoutRun run_layout(const Config& config, int ranks, int steps);

// Bytes that all ranks together need.
std::int64_t bytes_of_layout(const Config& config, int ranks);

}  // namespace trireme
