// The engine of a training step on one rank: micro-batches in, gradients accumulated and summed
// over ranks, optimizer step out.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/mesh.h"
#include "config/config.h"
#include "model/batch_inputs.h"
#include "model/losses.h"
#include "model/transformer.h"
#include "optim/optimizer.h"
#include "parallel/activation_windows.h"
#include "parallel/runner.h"
#include "parallel/stages.h"
#include "parallel/tensor_group.h"

namespace trireme {

// Gives micro-batch k of this rank; asked once for each k, rising. What it points to stays valid
// until the call that asked for it returns.
using MicroBatches = std::function<const Batch*(std::int64_t)>;

struct StepResult;

struct StepInput {
  std::uint64_t step = 0;          // number of this step, for random numbers
  std::int64_t micro_batches = 0;  // of this rank
  double lr = 0;
  double clip_grad = 0;  // 0: off
  double loss_scale = 1;
  // Asked where loss and gradients are finite, with the same answer on all ranks: whether the step
  // is taken at all. Null: it is.
  std::function<bool(const StepResult&)> takes;
  // Asked at the step's end: whether this rank wants the run to stop, and whether it still writes a
  // checkpoint.
  std::function<bool()> stop, saving;
};

// Load of the routers in a step.
struct ExpertLoad {
  double aux_loss = 0, z_loss = 0;  // of all layers, means over sequences
  // By layer of the model with experts: the largest number of choices that an expert kept, over the
  // mean of all experts.
  std::vector<double> imbalance;
  std::int64_t dropped = 0;  // choices, in all layers
};

// The same on every rank.
struct StepResult {
  LossSum loss;          // of all ranks
  ExpertLoad experts;    // of all ranks; empty where the model has none
  double grad_norm = 0;  // before clipping; not finite where gradients overflowed
  bool finite = true;    // false: loss or gradients overflowed and no step was taken
  bool taken = false;    // the weights were updated
  bool stop = false;     // a rank wants to stop
  bool saving = false;   // a rank still writes a checkpoint
};

// Which rank of how many this is.
struct RankOf {
  int rank = 0;
  int size = 1;
};

// Bytes of what is offloaded to a place, and of copies that checkpoints are written from there.
struct StoredBytes {
  std::int64_t states = 0, parameters = 0, activations = 0, copies = 0;

  std::int64_t total() const { return states + parameters + activations + copies; }
};

// Schedules of a pipeline with what they cost, by micro-batches per rank.
struct PlannedSchedule {
  Schedule schedule;
  ScheduleReport report;
};
using PlannedSchedules = std::map<std::int64_t, PlannedSchedule>;

class Engine {
 public:
  // Plans everything that this rank will hold, allocates nothing and needs no other rank. `config`
  // must be valid for that many ranks, its model resolved, its vocabulary known. Engines of the
  // same configuration in one process may share their schedules, which are the same on all ranks.
  Engine(const Config& config, const BuildOptions& build, const StageOptions& stage,
         RankOf rank = {}, std::shared_ptr<PlannedSchedules> schedules = nullptr);
  ~Engine();

  MemoryPlan memory() const;
  // All ranks together. Without a transport this rank must be the only one.
  void allocate(Transport* transport = nullptr);

  const Mesh& mesh() const { return mesh_; }
  // This rank's pieces of the model, in the order of the model's stages: one, or more with virtual
  // stages.
  int chunks() const { return static_cast<int>(chunks_.size()); }
  // Number of stages of the model, on all ranks, and which of them a chunk is.
  int stages() const { return placement_.stages(); }
  int stage_number(int chunk) const { return chunks_[chunk]->number; }
  Stage& stage(int chunk = 0) { return *chunks_[chunk]->stage; }
  const Stage& stage(int chunk = 0) const { return *chunks_[chunk]->stage; }
  Optimizer& optimizer(int chunk = 0) { return *chunks_[chunk]->optimizer; }
  const Optimizer& optimizer(int chunk = 0) const { return *chunks_[chunk]->optimizer; }
  const Gradients& gradients(int chunk = 0) const { return *chunks_[chunk]->gradients; }

  // Makes sequences that long from now on: one of the lengths of the curriculum. After allocate(),
  // between steps.
  void set_length(std::int64_t seq);
  std::int64_t length() const { return seq_; }

  // Optimizer calls for all chunks.
  void initialize();
  void refresh_compute();
  std::int64_t steps() const { return optimizer().steps(); }
  void set_steps(std::int64_t steps);
  // Whether this rank is the one among those with the same part of a parameter that counts and
  // saves it.
  bool owns(int chunk, const ParameterSpec& spec) const;

  // The schedule for `micro_batches` per rank, and its cost.
  const Schedule& schedule(std::int64_t micro_batches);
  const ScheduleReport& schedule_report(std::int64_t micro_batches);

  // Runs one step, on all ranks together.
  StepResult train_step(const StepInput& input, const MicroBatches& next,
                        Observer* observer = nullptr);
  // Loss of `micro_batches` per rank, without dropout, summed over all ranks. Collective.
  LossSum evaluate(std::int64_t micro_batches, const MicroBatches& next);

  // Runs the passes of a step only for the observer: neither weights nor states change. Collective.
  void observe(const StepInput& input, const MicroBatches& next, Observer& observer);
  // Description of the first NaN or infinity: runs the step's passes again. Collective.
  std::string explain_not_finite(const StepInput& input, const MicroBatches& next);

  // Records computation and communication; null: nothing.
  void set_trace(Trace* trace);

  // Bytes that this rank keeps outside of the memory of its device.
  StoredBytes stored(OffloadPlace place) const;

  // Hash of what must be the same on all ranks of a stage.
  std::uint64_t layout_hash() const;
  const Groups& groups() const { return groups_; }

 private:
  // A stage of the model with its states.
  struct Chunk {
    int number = 0;  // of the stage, along the model
    std::unique_ptr<Stage> stage;
    std::unique_ptr<StateLayout> layout;
    std::unique_ptr<Parameters> parameters;
    std::unique_ptr<Gradients> gradients;
    std::unique_ptr<Optimizer> optimizer;
    std::unique_ptr<ActivationWindows> activations;  // null: slots have all of them
  };
  class Client;

  void allocate_all(Transport* transport);
  // Bytes of sums_ for tensor-parallel sums, and for those of gradients. None on the CPU.
  std::array<std::int64_t, 2> sum_bytes() const;

  // The graphs of a stage for sequences of a length, laid out like all others.
  StageDefinition define(Chunk& chunk, std::int64_t seq) const;

  int find_parameter(const Chunk& chunk, const std::string& name) const;
  // Sets the weight of losses per sample for what this step's micro-batches predict, on all ranks
  // together.
  void weigh_sample_losses(Client& client);
  void run_micro_batches(const StepInput& input, Client& client, Observer* observer);
  void finish_gradients();
  StepResult update(const StepInput& input);
  // Step-dependent scalars and a step's accumulators, in device memory.
  struct StepMemory {
    StepBlock block;
    StepTotals totals;
    std::int64_t first_not_finite;
  };
  StepBlock* block() const { return &step_memory_.as<StepMemory>()->block; }
  StepTotals* totals() const { return &step_memory_.as<StepMemory>()->totals; }
  // Bytes of the routers' accumulators, which follow it; 0 without experts.
  std::int64_t expert_bytes() const;
  ExpertTotals* expert_totals() const {
    return reinterpret_cast<ExpertTotals*>(step_memory_.data() + align_up(sizeof(StepMemory)));
  }
  std::vector<std::byte> read_expert_totals();
  ExpertLoad load_of(const std::vector<std::byte>& totals, std::int64_t samples) const;
  void write_block();
  void clear_totals();
  StepTotals read_totals();
  double nominal_tokens(const StepInput& input) const;
  // The chunk that holds a stage of the model, or null if another rank does.
  Chunk* chunk_of_stage(int stage) const;

  Mesh mesh_;
  int rank_;
  MeshPlace place_;
  StagePlacement placement_;
  ScheduleKind schedule_kind_;
  const BuildOptions build_;
  const StateOptions states_;
  const std::vector<LayerRange> layers_;
  const std::span<const Loss> losses_;
  std::int64_t seq_;  // positions of a sample
  // Predicted tokens per sample of the global batch: with it a loss per sample weighs in the mean
  // over tokens what it weighs in the mean over samples. 1 where no token is predicted.
  double sample_weight_ = 1;
  std::uint64_t seed_;
  StepBlock step_block_;  // as last written to the device
  const ModelConfig model_;
  const struct { OffloadPlace states, parameters, activations; } places_;
  int zero_;
  // Before what communicates: operations under way outlive neither.
  Groups groups_;
  std::unique_ptr<TensorGroup> tensor_group_, context_group_, expert_group_;
  Device& device_;
  MemoryBlock step_memory_;
  MemoryBlock sums_;  // for parts that are added in the order of ranks
  PipelineBuffers buffers_;
  std::unique_ptr<SlotMemory> slots_;  // which the chunks share
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::unique_ptr<PipelineRunner> runner_;
  const std::shared_ptr<PlannedSchedules> schedules_;
};

}  // namespace trireme
