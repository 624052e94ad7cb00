// Cost of a layout without running it: memory, flops, traffic and bubble of every pipeline stage.
// The training engine runs one step on a recording device, which allocates and computes nothing;
// the plan is the sum of the recorded calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/recording/device.h"
#include "parallel/stages.h"
#include "train/engine/engine.h"

namespace trireme {

// Bytes that one rank sends per step.
struct Traffic {
  double tensor = 0;      // within layers
  double context = 0;     // attention over sequences sharded by ranks
  double experts = 0;     // rows to experts and back, with balanced load
  double pipeline = 0;    // activations and their gradients between stages
  double gradients = 0;   // sums over data-parallel ranks
  double parameters = 0;  // all-gathers of sharded parameters
};

// Bytes that one rank moves per step to and from an offload location.
struct StoreTraffic {
  double read = 0, written = 0;
};

// One rank per pipeline position; the others of the position (tp, dp) need no more than it.
struct RankPlan {
  int pipeline_rank = 0;
  std::vector<LayerRange> layers;  // by virtual stage
  std::int64_t parameters = 0;     // elements that it computes with, with padding
  MemoryPlan memory;               // of model, states and activations: exact to the byte
  StoredBytes in_files, on_host;   // offloaded data
  MemoryPlan besides;              // other memory on its device, upper estimate
  MemoryPlan besides_on_host;      // with a GPU: its process's other host memory, estimated
  // Host memory that the ranks of a node share, if the rank computes on a GPU.
  std::int64_t host_bytes() const { return on_host.total() + besides_on_host.total(); }
  std::int64_t device_bytes() const { return memory.total() + besides.total(); }
  double flops = 0;  // executed per step, recomputation included
  Traffic traffic;
  StoreTraffic files, host;
  // The recorded step; a long step, which is periodic, is recorded with few loop iterations, and
  // again with one iteration less.
  Record program, shorter;
};

struct LayoutPlan {
  Target target;  // target device of the plan
  Mesh mesh;
  std::int64_t parameters = 0;     // of the model
  std::int64_t micro_batches = 0;  // per rank and step
  double tokens = 0;               // per step
  double flops = 0;                // model flops per step, all ranks together
  double causal_share = 0;      // of the layers' attentions: those that see earlier positions only
  std::vector<RankPlan> ranks;  // by pipeline position
  double further_turns = 0;     // loop iterations beyond those of the recorded programs
  Schedule schedule;
  ScheduleReport even;      // schedule with equal duration of all passes
  ScheduleReport by_flops;  // pass durations by flops; times in TFLOP of one rank
};

// `config` must be valid for that many ranks, with known vocabulary. `target`: the
// device of the run. `schedules`: a cache for this configuration, which is extended; or
// null.
LayoutPlan plan_layout(const Config& config, int ranks, const Target& target = cpu::this_machine(),
                       std::shared_ptr<PlannedSchedules> schedules = nullptr);

// Formats the program of every rank of the plan in one step.
std::string program_text(const LayoutPlan& plan);

// Sets the vocabulary without reading tokenizer files unless required. If model.vocab_size is not
// set, it comes from the tokenizer or, if its files are missing, from the preset or from the usual
// size for its type. Returns a note on what was assumed; "" if nothing was.
std::string assume_vocabulary(Config& config);

// Formats the plan as `trireme plan` prints it.
std::string to_text(const LayoutPlan& plan, const Config& config);

}  // namespace trireme
