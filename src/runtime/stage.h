// A pipeline stage: segments in order, each an instance of a template graph, with all memory that
// running them takes and one program per phase and micro-batch in flight.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/planner.h"
#include "graph/recompute.h"
#include "runtime/memory.h"
#include "runtime/program.h"

namespace trireme {

// A parameter of the whole stage. Segments refer to it by its index; a tied one has two users.
struct Parameter {
  std::string name;  // layout-independent, e.g. "layers.3.mlp.up.weight"
  ParameterSpec spec;
  std::int64_t offset = 0;  // in elements, in the parameter and gradient regions
};

// A graph with what the runtime needs to know to run it in training.
struct SegmentTemplate {
  std::unique_ptr<Graph> train;  // differentiated and rewritten; null if the stage does not train
  std::unique_ptr<Graph> eval;   // forward only, without dropout
  bool forward_in_backward = false;
};

struct SegmentInstance {
  int segment;                  // index of the template
  std::int32_t layer;           // -1 outside of blocks
  std::vector<int> parameters;  // by the template's parameter index: index of the stage's parameter
};

struct StageDefinition {
  DType compute = DType::f32;
  std::vector<SegmentTemplate> templates;
  std::vector<SegmentInstance> segments;
  std::vector<Parameter> parameters;

  DType accumulate() const { return compute == DType::f64 ? DType::f64 : DType::f32; }
  // Elements of all parameters, each aligned.
  std::int64_t parameter_elements() const;
};

// Gives each parameter its offset; call once all are listed.
void lay_out_parameters(std::vector<Parameter>& parameters);

struct StageOptions {
  bool training = true;
  int slots = 1;  // micro-batches in flight
  bool split_weight_grad = false;
  bool reuse = true;    // false: every value its own memory
  bool poison = false;  // fill scratch with NaN before each phase
  // Another stage of the same model that outlives this one and is allocated before it: parameters,
  // caches and tables are then its, and not counted again (prompts and single tokens of
  // generation).
  const class Stage* shares = nullptr;
};

class Stage {
 public:
  // Plans, without allocating.
  Stage(StageDefinition definition, const StageOptions& options);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  const MemoryPlan& memory() const { return memory_; }
  const StageDefinition& definition() const { return definition_; }
  // Allocates all regions and resolves the programs. `group`: the tensor-parallel ranks, which
  // outlive the stage; null if this one is alone.
  void allocate(RankGroup* group = nullptr);

  // Addresses; null where the stage has no such value.
  void* parameter(int index) const;
  void* gradient(int index) const;
  void* batch(int slot, BatchInput which) const;
  void* result(int slot, ResultOutput which) const;
  void* constant(ConstantInput which) const;
  void* cache(int layer_segment, CacheBuffer which) const;
  std::int64_t batch_bytes(BatchInput which) const { return batch_bytes_[static_cast<int>(which)]; }
  std::int64_t result_bytes(ResultOutput which) const {
    return result_bytes_[static_cast<int>(which)];
  }
  // Activations that cross the stage's borders (pipelines); null at the model's ends.
  void* stage_input(int slot) const;
  void* stage_output(int slot) const;
  void* output_grad(int slot) const;  // gradient that enters
  void* input_grad(int slot) const;   // gradient that leaves

  void forward(int slot, const StepBlock& step, Observer* observer = nullptr);
  // Both gradients, or with split_weight_grad the input gradients only.
  void backward(int slot, const StepBlock& step, bool first_micro_batch,
                Observer* observer = nullptr);
  void weight_grad(int slot, const StepBlock& step, bool first_micro_batch,
                   Observer* observer = nullptr);
  // The forward pass alone, on the inputs of slot 0.
  void evaluate(const StepBlock& step, Observer* observer = nullptr);

  // The plan of a template: in training, or of its forward graph alone.
  const SegmentPlan& segment_plan(int segment, bool training) const {
    return training ? train_plans_[segment] : eval_plans_[segment];
  }

 private:
  struct SlotPrograms {
    Program forward, backward, weight_grad;
  };
  struct Addresses;

  void plan();
  void add_program(Program& program, std::size_t segment, const Graph& graph,
                   const SegmentPlan& plan, const std::vector<Node>& nodes, int slot) const;
  void* address(ValueId id, std::size_t segment, const Graph& graph, const SegmentPlan& plan,
                int slot) const;
  void resolve();
  void poison_scratch(int slot, bool saved) const;
  std::int64_t grad_boundary(int slot, std::size_t boundary) const;  // its offset in bytes

  StageDefinition definition_;
  StageOptions options_;
  RankGroup* group_ = nullptr;
  std::vector<SegmentPlan> train_plans_, eval_plans_;  // by template
  MemoryPlan memory_;

  std::int64_t boundary_bytes_ = 0;
  std::int64_t saved_bytes_ = 0;  // of one slot
  std::int64_t forward_scratch_bytes_ = 0, backward_scratch_bytes_ = 0;
  std::vector<std::int64_t> saved_offsets_;  // by segment
  std::vector<std::int64_t> cache_offsets_;  // by segment; keys, then values
  std::int64_t cache_bytes_ = 0;
  std::int64_t batch_bytes_[static_cast<int>(BatchInput::count)] = {};
  std::int64_t result_bytes_[static_cast<int>(ResultOutput::count)] = {};
  std::int64_t constant_bytes_[static_cast<int>(ConstantInput::count)] = {};

  MemoryBlock parameters_, gradients_, boundaries_, saved_, caches_;
  MemoryBlock forward_scratch_, backward_scratch_, grad_boundaries_, batches_, results_, constants_;
  std::vector<SlotPrograms> programs_;
  Program eval_program_;
};

}  // namespace trireme
