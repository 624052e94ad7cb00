// A pipeline stage: a definition with all the memory that it needs to run, and one program per
// pass.
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
  Device* device = &cpu::device();  // outlives the stage; its target sizes the scratch of kernels
  bool training = true;
  // The slots that the stages of a rank share; must outlive the stage and be allocated before it.
  // Null: the stage has one slot of its own.
  SlotMemory* slot_memory = nullptr;
  bool split_weight_grad = false;
  // With split_weight_grad: micro-batches between input and weight gradients; 0: as many as slots.
  int late_slots = 0;
  bool reuse = true;  // false: every value has its own memory
  // Fill with NaN what a pass must write before anything reads it: scratch, saved activations,
  // boundaries, windows and messages.
  bool poison = false;
  // Parameters and gradients of one segment at a time, in two windows that adjacent segments use
  // alternately: between segments parameters are brought and gradients taken away.
  bool parameter_windows = false;
  bool gradient_windows = false;
  // Number of leading layers whose inputs and saved values, in training, lie in windows that they
  // use in turn for all micro-batches, instead of in the slots. They are stored and fetched between
  // passes.
  std::int64_t windowed_layers = 0;
  // Above 0, slots have room for what these layers save, and for 1/input_parts of each input:
  // windows hold inputs only.
  int input_parts = 0;
  // Another stage of the same model that outlives this one and is allocated before it: parameters,
  // caches and tables then belong to it and are not counted again (prompts and single tokens of
  // generation).
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

// A pass over one micro-batch. backward makes both gradients, or with split_weight_grad those of
// the inputs only.
struct PassCall {
  Pass pass;
  Slot slot;
  const StepBlock* step = nullptr;  // in device memory; not for evaluate
  bool first_micro_batch = false;   // gradients are overwritten, otherwise added to
  Observer* observer = nullptr;
  FixedPoint fixed_point = {};  // where graphs have an exact block
};

// The plan that a stage derives from its definition and options. Sizes are in bytes unless noted.
struct StagePlan {
  std::vector<SegmentPlan> train_plans, eval_plans;  // by template
  PerRegion<std::int64_t> needs;          // of one slot or late slot where a region has such
  std::int64_t windows[2] = {};           // elements, of even and odd segments
  std::int64_t gradient_windows[2] = {};  // bytes
  std::int64_t boundary_bytes = 0;
  // Segments whose activations lie in windows, their windows, and what slots keep of an input.
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
  // Plans, without allocating.
  Stage(StageDefinition definition, const StageOptions& options);
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // All regions that it owns: shared slots are counted by their owner.
  MemoryPlan memory() const;
  const StageDefinition& definition() const { return definition_; }
  Device& device() const { return *options_.device; }
  // Allocates them and makes the programs. `groups`: the ranks that the graphs' collectives
  // communicate with, which must outlive the stage.
  void allocate(const RankGroups& groups = {});

  // Other shapes with the same parameters (several sequence lengths). reserve() plans for one more,
  // before allocate(). reshape() switches the stage to a reserved shape or back to the first one,
  // in memory that was reserved for it; tables have to be filled again. Not for stages that share
  // parameters.
  void reserve(StageDefinition shape);
  void reshape(StageDefinition shape);

  // With options.poison: fills memory, or the parameter window of a segment, with NaN.
  void poison(std::byte* begin, std::int64_t bytes) const;
  void poison_parameters(int segment) const;

  // Addresses; null where the stage has no such value. With windows a single parameter or gradient
  // has no address.
  void* parameter(int index) const;
  void* gradient(int index) const;
  // All parameters or gradients, in the flat layout; not with windows.
  std::byte* flat_parameters() const;
  std::byte* flat_gradients() const;
  // The window of a segment: its ranges, one after the other.
  std::byte* parameter_window(int segment) const;
  std::byte* gradient_window(int segment) const;
  // Whether a pass of a segment reads any parameter.
  bool reads_parameters(Pass pass, int segment) const;

  // Activations in windows. Segments that have one follow one another, and take windows in turn.
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
  // Size of a window for any shape, and of what a segment has in it now.
  std::int64_t largest_window() const;
  std::int64_t bytes_in_window(int segment) const;
  void poison_window(int segment) const;
  // Whether the backward pass of a segment changes what its window holds and weight gradients,
  // which run later, still read.
  bool changes_window(int segment) const;
  // Address and size of a part of a segment's input in a slot.
  std::byte* input_part(int segment, Slot slot) const;
  std::int64_t input_part_bytes() const { return plan_.input_part_bytes; }

  // Addresses in device memory. The host writes inputs and reads results through the device:
  // write_batch() calls fill(T* host), which replaces an input in full, if the stage has it, and
  // read_result() use(const T* host).
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
  // Activations that cross the stage's borders (pipelines); null at the model's ends.
  void* stage_input(Slot slot) const;
  void* stage_output(Slot slot) const;
  void* output_grad(Slot slot) const;  // gradient that enters
  void* input_grad(Slot slot) const;   // gradient that leaves
  // Bytes of each of them.
  std::int64_t boundary_bytes() const { return plan_.boundary_bytes; }

  // Enqueues a pass: all of it, or segment by segment, so that parameters can be brought before
  // each and gradients taken away after it. Then begin() comes first and the segments in the order
  // of segment_at().
  void run(const PassCall& call);
  void begin(const PassCall& call);
  void run_segment(const PassCall& call, int segment);
  int segments() const { return static_cast<int>(definition_.segments.size()); }
  // The segment that a pass takes as its `i`-th.
  int segment_at(Pass pass, int i) const { return runs_along(pass) ? i : segments() - 1 - i; }
  // Only the forward pass, without dropout, on the inputs of slot 0.
  void evaluate() { run({Pass::evaluate, 0}); }

  // The plan of a template: for training, or of its forward graph only.
  const SegmentPlan& segment_plan(int segment, bool training) const {
    return training ? plan_.train_plans[segment] : plan_.eval_plans[segment];
  }

 private:
  // One in use, one before it that is taken away or behind it that is brought, and one more, since
  // a segment's output is the input of the next window.
  static constexpr int most_windows = 3;

  // The instructions of one pass, segment by segment in the order in which they run.
  struct PassProgram {
    struct Run {
      int segment;
      std::size_t begin, end;
    };
    Program instructions;
    std::vector<Run> runs;
  };

  // That no two parameters share memory, and that windows hold the parameters of their segments.
  void check_flat_layout() const;
  void make_plan();
  void plan_templates();
  void plan_activation_windows();
  void plan_segments();
  void plan_windows();
  // Whether a region is that of options_.shares.
  bool borrows(StageRegion region) const;
  // Copies of a region that differ from late slot to late slot; 1 for all others.
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
  // The activation that enters segment i, and its gradient in its region.
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
  PerRegion<std::int64_t> reserved_;  // the most that any shape needs
  bool allocated_ = false;
  PerRegion<MemoryBlock> blocks_;
  PassProgram forward_, backward_, weight_grad_, evaluate_;
  std::vector<std::shared_ptr<const void>> prepared_;  // what the programs' kernels made for them
};

}  // namespace trireme
