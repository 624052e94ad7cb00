// A pipeline stage: its definition, all the memory it needs to run,
// and one program per pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/device.h"
#include "runtime/slot_memory.h"
#include "runtime/stage_definition.h"

namespace trireme {

struct StageOptions {
  Device* device = &cpu::device();  // outlives the stage; its target determines scratch sizes
  bool training = true;
  // Slots shared by the stages of a rank; must outlive the stage and be allocated before it. Null:
  // the stage has a single slot of its own.
  SlotMemory* slot_memory = nullptr;
  bool split_weight_grad = false;
  // With split_weight_grad: micro-batches between input and weight gradients; 0: one per slot.
  int late_slots = 0;
  bool reuse = true;  // false: every value has its own memory
  // Fills with NaN what a pass must write before anything reads it: scratch, saved activations,
  // boundaries, windows and messages.
  bool poison = false;
  // Keeps parameters and gradients of one segment at a time in two windows that segments alternate
  // between: parameters are fetched and gradients moved out between segments.
  bool parameter_windows = false;
  bool gradient_windows = false;
  // Number of leading layers whose inputs and saved values, in training, are kept in
  // windows shared by all micro-batches, instead of in the slots. They are offloaded and
  // fetched back between passes.
  std::int64_t windowed_layers = 0;
  // If positive, slots hold what these layers save, and 1/input_parts of each input;
  // windows then hold inputs only.
  int input_parts = 0;
  // Another stage of the same model that outlives this one and is allocated before it:
  // it owns parameters, caches and tables, which are not counted again (prompts and
  // single tokens of generation).
  const class Stage* shares = nullptr;
};

// Storage of a micro-batch: a slot from its forward pass to its last gradient, and a late slot
// between its input and its weight gradients.
struct Slot {
  Slot(int both) : index(both), late(both) {}
  Slot(int slot, int late_slot) : index(slot), late(late_slot) {}

  int index;
  int late;
};

// A pass over one micro-batch. backward computes both gradients, or with split_weight_grad
// only those of the inputs.
struct PassCall {
  Pass pass;
  Slot slot;
  const StepBlock* step = nullptr;  // in device memory; unused by evaluate
  bool first_micro_batch = false;   // gradients are overwritten, else accumulated
  Observer* observer = nullptr;
  FixedPoint fixed_point = {};  // if graphs have an exact block
};

// The memory plan derived from a stage's definition and options. Sizes are in bytes unless noted.
struct StagePlan {
  std::vector<SegmentPlan> train_plans, eval_plans;  // by template
  PerRegion<std::int64_t> needs;          // per slot or late slot for regions that have them
  std::int64_t windows[2] = {};           // elements, of even and odd segments
  std::int64_t gradient_windows[2] = {};  // bytes
  std::int64_t boundary_bytes = 0;
  // Segments with activation windows, these windows, and the part of an input that slots keep.
  int first_windowed = 0, windowed = 0;
  std::int64_t window_bytes = 0, input_part_bytes = 0;
  std::vector<std::int64_t> saved_offsets, late_saved_offsets;  // by segment
  std::vector<std::int64_t> cache_offsets;                      // by segment; keys, then values
  std::int64_t batch_bytes[static_cast<int>(BatchInput::count)] = {};
  std::int64_t result_bytes[static_cast<int>(ResultOutput::count)] = {};
  std::int64_t constant_bytes[static_cast<int>(ConstantInput::count)] = {};
};

class Stage {
 public:
  // Plans without allocating.
  Stage(StageDefinition definition, const StageOptions& options);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // All regions owned by the stage: shared slots are counted by their owner.
  MemoryPlan memory() const;
  const StageDefinition& definition() const { return definition_; }
  Device& device() const { return *options_.device; }
  // Allocates the regions and creates the programs. `groups`: the ranks that the graphs'
  // collectives communicate with; must outlive the stage.
  void allocate(const RankGroups& groups = {});

  // Support for several shapes with the same parameters (sequence lengths). reserve()
  // plans for another shape, before allocate(). reshape() switches to a reserved shape or
  // back to the first, within the reserved memory; tables must then be refilled. Not for
  // stages that share parameters.
  void reserve(StageDefinition shape);
  void reshape(StageDefinition shape);

  // With options.poison: fills memory, or a segment's parameter window, with NaN.
  void poison(std::byte* begin, std::int64_t bytes) const;
  void poison_parameters(int segment) const;

  // Addresses; null if the stage has no such value. With windows, single parameters and
  // gradients have no address.
  void* parameter(int index) const;
  void* gradient(int index) const;
  // All parameters or gradients in the flat layout; not available with windows.
  std::byte* flat_parameters() const;
  std::byte* flat_gradients() const;
  // Window of a segment, which holds its ranges one after the other.
  std::byte* parameter_window(int segment) const;
  std::byte* gradient_window(int segment) const;
  // Returns whether a pass of a segment reads any parameter.
  bool reads_parameters(Pass pass, int segment) const;

  // Activation windows. Segments with one are consecutive and use the windows in turn.
  int first_windowed() const { return plan_.first_windowed; }
  int windowed() const { return plan_.windowed; }
  bool has_window(int segment) const {
    return segment >= plan_.first_windowed && segment < plan_.first_windowed + plan_.windowed;
  }
  int activation_windows() const { return std::min(plan_.windowed, most_windows); }
  int window_of(int segment) const {
    return (segment - plan_.first_windowed) % activation_windows();
  }
  std::byte* activation_window(int segment) const;
  // Largest window of any shape, and a segment's current use of it.
  std::int64_t largest_window() const;
  std::int64_t bytes_in_window(int segment) const;
  void poison_window(int segment) const;
  // Returns whether a segment's backward pass modifies window contents that its later
  // weight-gradient pass still reads.
  bool changes_window(int segment) const;
  // Address and size of the part of a segment's input in a slot.
  std::byte* input_part(int segment, Slot slot) const;
  std::int64_t input_part_bytes() const { return plan_.input_part_bytes; }

  // Addresses in device memory. The host writes inputs and reads results through the device:
  // write_batch() calls fill(T* host), which must write the whole input, if the stage has it, and
  // read_result() calls use(const T* host).
  void* batch(Slot slot, BatchInput which) const;
  template <class T, class Fill>
  void write_batch(Slot slot, BatchInput which, const Fill& fill) const {
    void* to = batch(slot, which);
    if (!to) return;
    device().write(to, batch_bytes(which),
                   [&](std::byte* host) { fill(reinterpret_cast<T*>(host)); });
  }
  template <class T, class Use>
  void read_result(Slot slot, ResultOutput which, const Use& use) const {
    device().read(result(slot, which), result_bytes(which),
                  [&](const std::byte* host) { use(reinterpret_cast<const T*>(host)); });
  }
  void* result(Slot slot, ResultOutput which) const;
  void* constant(ConstantInput which) const;
  void* cache(int layer_segment, CacheBuffer which) const;
  std::int64_t batch_bytes(BatchInput which) const {
    return plan_.batch_bytes[static_cast<int>(which)];
  }
  std::int64_t constant_bytes(ConstantInput which) const {
    return plan_.constant_bytes[static_cast<int>(which)];
  }
  std::int64_t result_bytes(ResultOutput which) const {
    return plan_.result_bytes[static_cast<int>(which)];
  }
  // Activations at the stage's boundaries (pipelines); null at the ends of the model.
  void* stage_input(Slot slot) const;
  void* stage_output(Slot slot) const;
  void* output_grad(Slot slot) const;  // gradient from the next stage
  void* input_grad(Slot slot) const;   // gradient for the previous stage
  // Size of each of them in bytes.
  std::int64_t boundary_bytes() const { return plan_.boundary_bytes; }

  // Enqueues a pass: as a whole, or segment by segment, so that parameters can be fetched before
  // each segment and gradients moved out after it. In the latter case call begin() first, then the
  // segments in the order of segment_at().
  void run(const PassCall& call);
  void begin(const PassCall& call);
  void run_segment(const PassCall& call, int segment);
  int segments() const { return static_cast<int>(definition_.segments.size()); }
  // The `i`-th segment of a pass.
  int segment_at(Pass pass, int i) const { return runs_along(pass) ? i : segments() - 1 - i; }
  // Runs the forward pass only, without dropout, on the inputs of slot 0.
  void evaluate() { run({Pass::evaluate, 0}); }

  // The plan of a template: for training, or of its forward graph only.
  const SegmentPlan& segment_plan(int segment, bool training) const {
    return training ? plan_.train_plans[segment] : plan_.eval_plans[segment];
  }

 private:
  // Up to three windows: one in use, a neighbor being offloaded or fetched, and one more, since a
  // segment's output is the input of the next window.
  static constexpr int most_windows = 3;

  // Instructions of one pass, by segment in execution order.
  struct PassProgram {
    struct Run {
      int segment;
      std::size_t begin, end;
    };
    Program instructions;
    std::vector<Run> runs;
  };

  // Checks that parameters do not overlap, and that windows hold their segments' parameters.
  void check_flat_layout() const;
  void make_plan();
  void plan_templates();
  void plan_activation_windows();
  void plan_segments();
  void plan_windows();
  // Returns whether a region belongs to options_.shares.
  bool borrows(StageRegion region) const;
  // Number of copies of a region, one per late slot; 1 for all other regions.
  int copies(StageRegion region) const;
  SlotMemory& slots() const { return options_.slot_memory ? *options_.slot_memory : *own_slots_; }

  void make_programs();
  void add_program(PassProgram& program, std::size_t segment, const Graph& graph,
                   const SegmentPlan& plan, const std::vector<Node>& nodes);
  void mark_later_writers();
  Operand place(std::size_t segment, const Placement& placement) const;
  Operand operand(ValueId id, std::size_t segment, const Graph& graph,
                  const SegmentPlan& plan) const;
  Operand cache_operand(std::size_t segment, CacheBuffer which) const;
  std::int64_t parameter_offset(std::size_t segment, int parameter) const;
  std::int64_t gradient_offset(std::size_t segment, int parameter) const;
  bool saves_in_window(std::size_t segment) const {
    return options_.input_parts == 0 && has_window(static_cast<int>(segment));
  }
  // The input activation of segment i, and its gradient in its region.
  Operand activation(std::size_t i) const;
  std::int64_t grad_boundary(std::size_t i) const;
  std::byte* base(StageRegion region, Slot slot) const;
  RegionBases bases(Slot slot) const;
  void* at(Operand operand, Slot slot) const;

  const PassProgram& program(Pass pass) const;

  StageDefinition definition_;
  StageOptions options_;
  StagePlan plan_;
  RankGroups groups_;
  std::unique_ptr<SlotMemory> own_slots_;
  PerRegion<std::int64_t> reserved_;  // maximum over all shapes
  bool allocated_ = false;
  PerRegion<MemoryBlock> blocks_;
  PassProgram forward_, backward_, weight_grad_, evaluate_;
  std::vector<std::shared_ptr<const void>> prepared_;  // made by kernels for the programs
};

}  // namespace trireme
