// The training engine of one rank: computes micro-batches, accumulates and reduces gradients, and
// runs the optimizer step.
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
#include "parallel/runner.h"
#include "parallel/schedule/activation_windows.h"
#include "parallel/schedule/planned_schedules.h"
#include "parallel/stages.h"
#include "parallel/tensor_group.h"

namespace trireme {

// Returns micro-batch k of this rank; called once for each k, in ascending order. The result stays
// valid until the calling engine method returns.
using MicroBatches = std::function<const Batch*(std::int64_t)>;

struct StepResult;

struct StepInput {
  std::uint64_t step = 0;          // number of this step, for random numbers
  std::int64_t micro_batches = 0;  // of this rank
  double lr = 0;
  double clip_grad = 0;  // 0: off
  double loss_scale = 1;
  // Called if loss and gradients are finite: whether to apply the step; must return the same on all
  // ranks. Null: always applied.
  std::function<bool(const StepResult&)> takes;
  // Called at the end of the step: whether this rank wants the run to stop, and whether it is still
  // writing a checkpoint.
  std::function<bool()> stop, saving;
};

// Router load balance in a step.
struct ExpertLoad {
  double aux_loss = 0, z_loss = 0;  // of all layers, means over sequences
  // By MoE layer of the model: the largest number of choices that an expert kept, divided by the
  // mean over all experts.
  std::vector<double> imbalance;
  std::int64_t dropped = 0;  // choices, in all layers
};

// The same on every rank.
struct StepResult {
  LossSum loss;              // of all ranks
  ExpertLoad experts;        // of all ranks; empty where the model has none
  double grad_norm = 0;      // before clipping; not finite on gradient overflow
  double largest_score = 0;  // of attention, with QK-clip
  bool finite = true;        // false: loss or gradients overflowed and no step was taken
  bool taken = false;        // the weights were updated
  bool stop = false;         // a rank wants to stop
  bool saving = false;       // a rank still writes a checkpoint
};

// Rank and number of ranks.
struct RankOf {
  int rank = 0;
  int size = 1;
};

// Bytes offloaded to a place, and of copies in that place from which checkpoints are written.
struct StoredBytes {
  std::int64_t states = 0, parameters = 0, activations = 0, copies = 0;

  std::int64_t total() const { return states + parameters + activations + copies; }
};

class Engine {
 public:
  // Plans everything that this rank will hold without allocating or communicating. `config` must be
  // valid for that many ranks, with model and vocabulary resolved. Engines of one process may
  // share schedules, whatever their configurations.
  Engine(const Config& config, const BuildOptions& build, const StageOptions& stage,
         RankOf rank = {}, std::shared_ptr<PlannedSchedules> schedules = nullptr);
  ~Engine();

  MemoryPlan memory() const;
  // Collective. Without a transport this rank must be the only one.
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

  // Sets the sequence length of subsequent steps: one of the curriculum's. Call after allocate(),
  // between steps.
  void set_length(std::int64_t seq);
  std::int64_t length() const { return seq_; }

  // Optimizer calls for all chunks.
  void initialize();
  void refresh_compute();
  std::int64_t steps() const { return optimizer().steps(); }
  void set_steps(std::int64_t steps);
  // Whether this rank, among all that hold the same part of a parameter, is the one that counts and
  // saves it.
  bool owns(int chunk, const ParameterSpec& spec) const;

  // The schedule for `micro_batches` per rank, and its cost.
  const PlannedSchedule& schedule(std::int64_t micro_batches) const;

  // Runs one step, on all ranks together.
  StepResult train_step(const StepInput& input, const MicroBatches& next,
                        Observer* observer = nullptr);
  // Loss of `micro_batches` per rank, without dropout, summed over all ranks. Collective.
  LossSum evaluate(std::int64_t micro_batches, const MicroBatches& next);

  // Runs the passes of a step for the observer only: weights and states do not change. Collective.
  void observe(const StepInput& input, const MicroBatches& next, Observer& observer);
  // Describes the first NaN or infinity by rerunning the step's passes. Collective.
  std::string explain_not_finite(const StepInput& input, const MicroBatches& next);

  // Records computation and communication; null: nothing.
  void set_trace(Trace* trace);

  // Bytes that this rank stores outside device memory.
  StoredBytes stored(OffloadPlace place) const;

  // Hash of the layout, which must be equal on all ranks of a stage.
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
  // Sizes of sums_ for tensor-parallel sums and for gradients. 0 on the CPU.
  std::array<std::int64_t, 2> sum_bytes() const;

  // Builds the graphs of a stage for a sequence length, with the common parameter layout.
  StageDefinition define(Chunk& chunk, std::int64_t seq) const;

  int find_parameter(const Chunk& chunk, const std::string& name) const;
  // Computes the weights of per-sample losses and of further tokens from the number of predictions
  // in this step's micro-batches on all ranks.
  void weigh_losses(Client& client);
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
  // Layers for which the choices of experts are counted.
  std::int64_t counted_layers() const;
  // Bytes of the routers' accumulators, located after it; 0 without experts.
  std::int64_t expert_bytes() const;
  ExpertTotals* expert_totals() const {
    return reinterpret_cast<ExpertTotals*>(step_memory_.data() + align_up(sizeof(StepMemory)));
  }
  std::vector<std::byte> read_expert_totals();
  // The same for the largest attention logits of heads, located after those; 0 without QK-clip.
  std::int64_t score_bytes() const;
  double* largest_scores() const {
    return reinterpret_cast<double*>(step_memory_.data() + align_up(sizeof(StepMemory)) +
                                     expert_bytes());
  }
  // Of all ranks. Collective.
  std::vector<double> read_largest_scores();
  ExpertLoad load_of(const std::vector<std::byte>& totals, std::int64_t samples) const;
  void write_block();
  void clear_totals();
  StepTotals read_totals();
  double nominal_tokens(const StepInput& input) const;
  // Returns the chunk that holds a stage of the model, or null if another rank holds it.
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
  // Predicted tokens per sample of the global batch: scales a per-sample loss so that its weight in
  // the token mean equals that in the sample mean. 1 if no token is predicted.
  double sample_weight_ = 1;
  // By module of multi-token prediction: the weight of a token's loss relative to a next token's.
  std::vector<double> further_weights_;
  std::uint64_t seed_;
  StepBlock step_block_;  // as last written to the device
  const ModelConfig model_;
  const OptimizerConfig optimizer_;
  const struct { OffloadPlace states, parameters, activations; } places_;
  int zero_;
  // Declared before members that communicate: pending operations must not outlive the groups.
  Groups groups_;
  std::unique_ptr<TensorGroup> tensor_group_, context_group_, expert_group_;
  Device& device_;
  MemoryBlock step_memory_;
  MemoryBlock sums_;  // buffers for sums in rank order
  PipelineBuffers buffers_;
  std::unique_ptr<SlotMemory> slots_;  // shared by the chunks
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::unique_ptr<PipelineRunner> runner_;
  const std::shared_ptr<PlannedSchedules> schedules_;
};

}  // namespace trireme
