// What a layout takes, known without running it: memory, flops, traffic and the bubble of every
// pipeline stage. It asks the engine's own parts, so that a plan and a run cannot drift apart.
#pragma once

#include <string>
#include <vector>

#include "parallel/stages.h"
#include "train/engine.h"

namespace trireme {

// Bytes that one rank sends per step.
struct Traffic {
  double tensor = 0;      // within layers
  double pipeline = 0;    // activations and their gradients between stages
  double gradients = 0;   // sums over data-parallel ranks
  double parameters = 0;  // gathering what is sharded
};

// One rank of each pipeline position; those beside it (tp, dp) need the same.
struct RankPlan {
  int pipeline_rank = 0;
  std::vector<LayerRange> layers;  // by virtual stage
  std::int64_t parameters = 0;     // elements computed with, padding included
  MemoryPlan memory;
  double flops = 0;  // executed per step, recomputation included
  Traffic traffic;
};

struct LayoutPlan {
  Mesh mesh;
  std::int64_t parameters = 0;     // of the model
  std::int64_t micro_batches = 0;  // per rank and step
  double tokens = 0;               // per step
  double flops = 0;                // necessary per step, all ranks together
  std::vector<RankPlan> ranks;     // by pipeline position
  Schedule schedule;
  ScheduleReport even;      // every pass of every stage takes equally long
  ScheduleReport by_flops;  // passes take as long as their flops; times in TFLOP of one rank
};

// `config` is valid for that many ranks and knows its vocabulary.
LayoutPlan plan_layout(const Config& config, int ranks);

// As printed by `trireme plan`.
std::string to_text(const LayoutPlan& plan, const Config& config);

}  // namespace trireme
