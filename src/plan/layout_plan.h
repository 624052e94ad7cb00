// Cost of a layout without running it: memory, flops, traffic and the bubble of every pipeline
// stage. The engine that trains runs one step on a device that allocates and computes nothing but
// records its calls; the plan is the sum of that record.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/recording/device.h"
#include "parallel/stages.h"
#include "train/engine.h"

namespace trireme {

// Bytes that one rank sends per step.
struct Traffic {
  double tensor = 0;      // within layers
  double context = 0;     // attention over sequences that ranks share
  double experts = 0;     // rows to experts and back, where loads are even
  double pipeline = 0;    // activations and their gradients between stages
  double gradients = 0;   // sums over data-parallel ranks
  double parameters = 0;  // gathering what is sharded
};

// Bytes that one rank moves per step from and to a place where it keeps what is offloaded.
struct StoreTraffic {
  double read = 0, written = 0;
};

// One rank of each pipeline position; the others of that position (tp, dp) need no more.
struct RankPlan {
  int pipeline_rank = 0;
  std::vector<LayerRange> layers;  // by virtual stage
  std::int64_t parameters = 0;     // elements computed with, padding included
  MemoryPlan memory;               // of the model, its states and its activations: to the byte
  StoredBytes in_files, on_host;   // what is offloaded
  MemoryPlan besides;              // what its device holds in addition, estimated from above
  MemoryPlan besides_on_host;      // of a GPU: what its process holds there in addition
  // Host memory that the ranks of a node share, if the rank computes on a GPU.
  std::int64_t host_bytes() const { return on_host.total() + besides_on_host.total(); }
  std::int64_t device_bytes() const { return memory.total() + besides.total(); }
  double flops = 0;  // executed per step, recomputation included
  Traffic traffic;
  StoreTraffic files, host;
  // The recorded step; of a long one, which repeats itself, with few turns of its schedule, and
  // then also with one turn fewer.
  Record program, shorter;
};

struct LayoutPlan {
  Target target;  // what it was made for
  Mesh mesh;
  std::int64_t parameters = 0;     // of the model
  std::int64_t micro_batches = 0;  // per rank and step
  double tokens = 0;               // per step
  double flops = 0;                // necessary per step, all ranks together
  double causal_share = 0;      // of the layers' attentions: those that see earlier positions only
  std::vector<RankPlan> ranks;  // by pipeline position
  double further_turns = 0;     // of the step, after those of the recorded programs
  Schedule schedule;
  ScheduleReport even;      // every pass of every stage takes equally long
  ScheduleReport by_flops;  // passes take as long as their flops; times in TFLOP of one rank
};

// `config` is valid for that many ranks and knows its vocabulary.
// `target`: what the run will compute on. `schedules`: those that are known of this configuration,
// to which its others are added; or null.
LayoutPlan plan_layout(const Config& config, int ranks, const Target& target = cpu::this_machine(),
                       std::shared_ptr<PlannedSchedules> schedules = nullptr);

// The program of every rank of the plan in a step, as text.
std::string program_text(const LayoutPlan& plan);

// A plan does not read the tokenizer's files if it need not. Where model.vocab_size is not set, the
// vocabulary comes from the tokenizer, or if its files are missing, from the preset or from what
// tokenizers of its kind have. Returns a note on what was assumed; "" if nothing was.
std::string assume_vocabulary(Config& config);

// Formats the plan as `trireme plan` prints it.
std::string to_text(const LayoutPlan& plan, const Config& config);

}  // namespace trireme
