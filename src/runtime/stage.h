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

// Elements [begin, begin + elements) of the flat layout of a stage's parameters.
struct FlatRange {
  std::int64_t begin = 0;
  std::int64_t elements = 0;
};

struct StageDefinition {
  DType compute = DType::f32;
  std::vector<SegmentTemplate> templates;
  std::vector<SegmentInstance> segments;
  std::vector<Parameter> parameters;
  std::int64_t flat_elements = 0;  // of all parameters, with the gaps between them
  // By segment: what its window holds where parameters or gradients lie in windows.
  std::vector<std::vector<FlatRange>> windows;

  DType accumulate() const { return compute == DType::f64 ? DType::f64 : DType::f32; }
};

// Gives each parameter its offset, one behind the other; call once all are listed.
void lay_out_parameters(StageDefinition& definition);

// The passes of a stage over one micro-batch. `backward` computes the input gradients only where
// the stage splits off the weight gradients.
enum class Pass : std::uint8_t { forward, backward, weight_grad, evaluate };

// Is called around each segment of a pass: brings parameters, takes gradients away.
class SegmentHooks {
 public:
  virtual ~SegmentHooks() = default;
  virtual void before(Pass pass, int segment) = 0;
  virtual void after(Pass pass, int segment) = 0;
};

struct StageOptions {
  bool training = true;
  int slots = 1;  // micro-batches in flight
  bool split_weight_grad = false;
  int late_slots = 0;   // with it: micro-batches between input and weight gradients; 0: slots
  bool reuse = true;    // false: every value its own memory
  bool poison = false;  // fill scratch with NaN before each phase
  // Parameters and gradients of one segment at a time, in two windows that neighbouring segments
  // take in turns: hooks bring the parameters and take the gradients away.
  bool parameter_windows = false;
  bool gradient_windows = false;
  // Another stage of the same model that outlives this one and is allocated before it: parameters,
  // caches and tables are then its, and not counted again (prompts and single tokens of
  // generation).
  const class Stage* shares = nullptr;
};

// What a stage plans from its definition and options.
struct StagePlan {
  std::vector<SegmentPlan> train_plans_, eval_plans_;  // by template
  MemoryPlan memory_;
  int turns_ = 1;  // slots and late slots repeat together after so many micro-batches
  std::int64_t windows_[2] = {};  // elements, of even and odd segments
  std::int64_t boundary_bytes_ = 0;
  std::int64_t saved_bytes_ = 0, late_saved_bytes_ = 0;  // of one slot
  std::int64_t forward_scratch_bytes_ = 0, backward_scratch_bytes_ = 0;
  std::vector<std::int64_t> saved_offsets_, late_saved_offsets_;  // by segment
  std::vector<std::int64_t> cache_offsets_;                       // by segment; keys, then values
  std::int64_t cache_bytes_ = 0;
  std::int64_t batch_bytes_[static_cast<int>(BatchInput::count)] = {};
  std::int64_t result_bytes_[static_cast<int>(ResultOutput::count)] = {};
  std::int64_t constant_bytes_[static_cast<int>(ConstantInput::count)] = {};
};

class Stage : private StagePlan {
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

  // Other shapes of the same parameters (sequence lengths that take turns). reserve() plans for
  // one, before allocate(); reshape() makes it, or the first, what the stage computes from then on,
  // in memory that was reserved for it. Tables have to be filled again. Not for stages that share.
  void reserve(StageDefinition shape);
  void reshape(StageDefinition shape);

  // Must outlive the stage; null: none.
  void set_hooks(SegmentHooks* hooks) { hooks_ = hooks; }

  // Micro-batches take slots in turns: the slot of a micro-batch, to be passed to all that follows.
  int slot_of(std::int64_t micro_batch) const { return static_cast<int>(micro_batch % turns_); }

  // Addresses; null where the stage has no such value. With windows there is no address of a
  // parameter or gradient as such.
  void* parameter(int index) const;
  void* gradient(int index) const;
  // All parameters or gradients, in the flat layout; not with windows.
  std::byte* flat_parameters() const;
  std::byte* flat_gradients() const;
  // The window of a segment: its ranges, one behind the other.
  std::byte* parameter_window(int segment) const;
  std::byte* gradient_window(int segment) const;
  // Elements of the larger of the two windows.
  std::int64_t window_elements() const;
  // Whether a pass of a segment reads any parameter.
  bool reads_parameters(Pass pass, int segment) const;

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
  // Bytes of each of them.
  std::int64_t boundary_bytes() const { return boundary_bytes_; }

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
  // The instructions of one pass, segment by segment in the order in which they run.
  struct PassProgram {
    struct Run {
      int segment;
      std::size_t begin, end;
    };
    Program instructions;
    std::vector<Run> runs;
  };
  struct SlotPrograms {
    PassProgram forward, backward, weight_grad;
  };

  void plan();
  void plan_windows();
  void add_program(PassProgram& program, std::size_t segment, const Graph& graph,
                   const SegmentPlan& plan, const std::vector<Node>& nodes, int slot) const;
  void run(Pass pass, const PassProgram& program, const StepBlock& step, bool first_micro_batch,
           Observer* observer);
  // Offset of a parameter in its segment's window, both windows counted as one region.
  std::int64_t window_offset(std::size_t segment, int parameter) const;
  void mark_later_writers(SlotPrograms& programs) const;
  void* address(ValueId id, std::size_t segment, const Graph& graph, const SegmentPlan& plan,
                int slot) const;
  void resolve();
  void poison_scratch(int slot, bool saved) const;
  std::int64_t grad_boundary(int slot, std::size_t boundary) const;  // its offset in bytes

  StageDefinition definition_;
  StageOptions options_;
  RankGroup* group_ = nullptr;
  SegmentHooks* hooks_ = nullptr;
  MemoryBlock parameters_, gradients_, boundaries_, saved_, late_saved_, caches_;
  MemoryBlock forward_scratch_, backward_scratch_, grad_boundaries_, batches_, results_, constants_;
  std::vector<SlotPrograms> programs_;
  PassProgram eval_program_;
};

}  // namespace trireme
