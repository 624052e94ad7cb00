// Planning and running a stage.
#include "runtime/stage.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

namespace trireme {
namespace {

constexpr int batch_kinds = static_cast<int>(BatchInput::count);
constexpr int result_kinds = static_cast<int>(ResultOutput::count);
constexpr int constant_kinds = static_cast<int>(ConstantInput::count);

// Bytes of the first `end` entries, each aligned: the offset of entry `end`.
std::int64_t prefix(const std::int64_t* bytes, int end) {
  std::int64_t sum = 0;
  for (int i = 0; i < end; ++i) sum += align_up(bytes[i]);
  return sum;
}

void* shifted(const MemoryBlock& block, std::int64_t offset) {
  return block.data() ? block.data() + offset : nullptr;
}

}  // namespace

void lay_out_parameters(StageDefinition& definition) {
  std::int64_t offset = 0;
  for (Parameter& parameter : definition.parameters) {
    parameter.offset = offset;
    offset += align_up(parameter.spec.shape.count());
  }
  definition.flat_elements = offset;
}

Stage::Stage(StageDefinition definition, const StageOptions& options)
    : definition_(std::move(definition)), options_(options) {
  if (options_.late_slots == 0) options_.late_slots = options_.slots;
  plan();
}

void Stage::plan() {
  for (const SegmentTemplate& segment : definition_.templates) {
    PlanOptions plan_options;
    plan_options.forward_in_backward = segment.forward_in_backward;
    // Logits would have to be kept until the weight gradients of a head run: they run at once.
    plan_options.split_weight_grad = options_.split_weight_grad && !segment.forward_in_backward;
    plan_options.reuse = options_.reuse;
    if (options_.training) train_plans_.push_back(plan_segment(*segment.train, plan_options));
    plan_options.training = false;
    eval_plans_.push_back(plan_segment(*segment.eval, plan_options));
    for (const SegmentPlan* p :
         {&eval_plans_.back(), options_.training ? &train_plans_.back() : nullptr}) {
      if (!p) continue;
      forward_scratch_bytes_ = std::max(forward_scratch_bytes_, p->forward_scratch_bytes);
      backward_scratch_bytes_ = std::max(backward_scratch_bytes_, p->backward_scratch_bytes);
    }
    for (const Graph* graph : {segment.train.get(), segment.eval.get()}) {
      if (!graph) continue;
      for (ValueId id = 0; id < graph->value_count(); ++id) {
        const Value& value = graph->value(id);
        if (graph->is_view(id)) continue;
        const auto grow = [&](std::int64_t& bytes) { bytes = std::max(bytes, value.bytes()); };
        if (value.role == Role::batch) grow(batch_bytes_[value.index]);
        if (value.role == Role::result) grow(result_bytes_[value.index]);
        if (value.role == Role::constant) grow(constant_bytes_[value.index]);
        if (value.role == Role::input || value.role == Role::output) grow(boundary_bytes_);
      }
    }
  }
  boundary_bytes_ = align_up(boundary_bytes_);
  for (const SegmentInstance& instance : definition_.segments) {
    saved_offsets_.push_back(saved_bytes_);
    late_saved_offsets_.push_back(late_saved_bytes_);
    if (options_.training) {
      saved_bytes_ += train_plans_[instance.segment].saved_bytes;
      late_saved_bytes_ += train_plans_[instance.segment].late_saved_bytes;
    }
    cache_offsets_.push_back(cache_bytes_);
    const Graph& graph = *definition_.templates[instance.segment].eval;
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      if (graph.value(id).role == Role::cache) cache_bytes_ += align_up(graph.value(id).bytes());
    }
  }

  plan_windows();
  if (options_.training) turns_ = std::lcm(options_.slots, options_.late_slots);
  const std::int64_t elements = definition_.flat_elements;
  const std::int64_t in_windows = windows_[0] + windows_[1];
  const auto boundaries = static_cast<std::int64_t>(definition_.segments.size()) + 1;
  const bool train = options_.training, own = options_.shares == nullptr;
  memory_.add(
      options_.parameter_windows ? "gathered parameters" : "parameters",
      own ? (options_.parameter_windows ? in_windows : elements) * size_of(definition_.compute)
          : 0);
  memory_.add(options_.gradient_windows ? "gradients of a segment" : "gradients",
              train ? (options_.gradient_windows ? in_windows : elements) *
                          size_of(definition_.accumulate())
                    : 0);
  memory_.add("block inputs", (train ? boundaries * options_.slots : 2) * boundary_bytes_);
  memory_.add("saved activations", saved_bytes_ * options_.slots);
  memory_.add("saved for weight gradients", late_saved_bytes_ * options_.late_slots);
  memory_.add("key/value cache", own ? cache_bytes_ : 0);
  memory_.add("forward scratch", forward_scratch_bytes_);
  memory_.add("backward scratch", backward_scratch_bytes_);
  // Weight gradients that run later still read the gradients that entered their segment.
  memory_.add(
      "gradients of activations",
      train ? (options_.split_weight_grad ? boundaries * options_.late_slots : 2) * boundary_bytes_
            : 0);
  memory_.add("micro-batches", prefix(batch_bytes_, batch_kinds) * options_.slots);
  memory_.add("results", prefix(result_bytes_, result_kinds) * options_.slots);
  memory_.add("tables", own ? prefix(constant_bytes_, constant_kinds) : 0);
}

void Stage::reserve(StageDefinition shape) {
  TRIREME_CHECK(!boundaries_.data() && !options_.shares);
  const Stage other(std::move(shape), options_);
  TRIREME_CHECK(other.definition_.flat_elements == definition_.flat_elements &&
                other.memory_.regions.size() == memory_.regions.size());
  for (std::size_t i = 0; i < memory_.regions.size(); ++i) {
    std::int64_t& bytes = memory_.regions[i].bytes;
    bytes = std::max(bytes, other.memory_.regions[i].bytes);
  }
}

void Stage::reshape(StageDefinition shape) {
  TRIREME_CHECK(shape.parameters.size() == definition_.parameters.size() &&
                shape.flat_elements == definition_.flat_elements);
  TRIREME_CHECK(boundaries_.data());
  const MemoryPlan reserved = std::move(memory_);
  definition_ = std::move(shape);
  static_cast<StagePlan&>(*this) = {};
  programs_.clear();
  eval_program_ = {};
  plan();
  for (std::size_t i = 0; i < reserved.regions.size(); ++i)
    TRIREME_CHECK(memory_.regions[i].bytes <= reserved.regions[i].bytes);
  memory_ = reserved;
  resolve();
}

void Stage::allocate(RankGroup* group) {
  group_ = group;
  MemoryBlock* blocks[] = {&parameters_,      &gradients_, &boundaries_,      &saved_,
                           &late_saved_,      &caches_,    &forward_scratch_, &backward_scratch_,
                           &grad_boundaries_, &batches_,   &results_,         &constants_};
  TRIREME_CHECK(std::size(blocks) == memory_.regions.size());
  for (std::size_t i = 0; i < std::size(blocks); ++i)
    *blocks[i] = MemoryBlock(memory_.regions[i].bytes);
  resolve();
}

void Stage::plan_windows() {
  if (!options_.parameter_windows && !options_.gradient_windows) return;
  TRIREME_CHECK(definition_.windows.size() == definition_.segments.size());
  for (std::size_t s = 0; s < definition_.windows.size(); ++s) {
    std::int64_t elements = 0;
    for (const FlatRange& range : definition_.windows[s]) elements += range.elements;
    windows_[s % 2] = std::max(windows_[s % 2], elements);
  }
}

std::int64_t Stage::window_offset(std::size_t segment, int parameter) const {
  const std::int64_t offset = definition_.parameters[parameter].offset;
  std::int64_t begin = segment % 2 ? windows_[0] : 0;
  for (const FlatRange& range : definition_.windows[segment]) {
    if (offset >= range.begin && offset < range.begin + range.elements)
      return begin + offset - range.begin;
    begin += range.elements;
  }
  TRIREME_CHECK(!"a segment's window lacks a parameter");
  return 0;
}

std::int64_t Stage::window_elements() const {
  return std::max(windows_[0], windows_[1]);
}

std::byte* Stage::flat_parameters() const {
  TRIREME_CHECK(!options_.parameter_windows);
  return parameters_.data();
}

std::byte* Stage::flat_gradients() const {
  TRIREME_CHECK(!options_.gradient_windows);
  return gradients_.data();
}

std::byte* Stage::parameter_window(int segment) const {
  TRIREME_CHECK(options_.parameter_windows);
  return parameters_.data() + (segment % 2 ? windows_[0] : 0) * size_of(definition_.compute);
}

std::byte* Stage::gradient_window(int segment) const {
  TRIREME_CHECK(options_.gradient_windows);
  return gradients_.data() + (segment % 2 ? windows_[0] : 0) * size_of(definition_.accumulate());
}

bool Stage::reads_parameters(Pass pass, int segment) const {
  const int t = definition_.segments[segment].segment;
  const bool evaluate = pass == Pass::evaluate;
  const SegmentTemplate& graphs = definition_.templates[t];
  const Graph& graph = evaluate ? *graphs.eval : *graphs.train;
  const SegmentPlan& plan = evaluate ? eval_plans_[t] : train_plans_[t];
  const auto& nodes = pass == Pass::backward      ? plan.backward
                      : pass == Pass::weight_grad ? plan.weight_grad
                                                  : plan.forward;
  for (const Node& node : nodes) {
    for (const ValueId id : node.inputs) {
      if (id != no_value && graph.value(id).role == Role::parameter) return true;
    }
  }
  return false;
}

void* Stage::parameter(int index) const {
  if (options_.shares) return options_.shares->parameter(index);
  TRIREME_CHECK(!options_.parameter_windows);
  return shifted(parameters_, definition_.parameters[index].offset * size_of(definition_.compute));
}

void* Stage::gradient(int index) const {
  TRIREME_CHECK(!options_.gradient_windows);
  return shifted(gradients_,
                 definition_.parameters[index].offset * size_of(definition_.accumulate()));
}

void* Stage::batch(int slot, BatchInput which) const {
  const int kind = static_cast<int>(which);
  if (batch_bytes_[kind] == 0) return nullptr;
  return shifted(batches_, prefix(batch_bytes_, batch_kinds) * (slot % options_.slots) +
                               prefix(batch_bytes_, kind));
}

void* Stage::result(int slot, ResultOutput which) const {
  const int kind = static_cast<int>(which);
  if (result_bytes_[kind] == 0) return nullptr;
  return shifted(results_, prefix(result_bytes_, result_kinds) * (slot % options_.slots) +
                               prefix(result_bytes_, kind));
}

void* Stage::constant(ConstantInput which) const {
  if (options_.shares) return options_.shares->constant(which);
  const int kind = static_cast<int>(which);
  if (constant_bytes_[kind] == 0) return nullptr;
  return shifted(constants_, prefix(constant_bytes_, kind));
}

void* Stage::cache(int segment, CacheBuffer which) const {
  if (options_.shares) return options_.shares->cache(segment, which);
  const Graph& graph = *definition_.templates[definition_.segments[segment].segment].eval;
  std::int64_t offset = cache_offsets_[segment];
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.role != Role::cache) continue;
    if (value.index == static_cast<int>(which)) return shifted(caches_, offset);
    offset += align_up(value.bytes());
  }
  return nullptr;
}

void* Stage::stage_input(int slot) const {
  const auto per_slot = static_cast<std::int64_t>(definition_.segments.size()) + 1;
  return shifted(boundaries_,
                 options_.training ? slot % options_.slots * per_slot * boundary_bytes_ : 0);
}

void* Stage::stage_output(int slot) const {
  const auto last = static_cast<std::int64_t>(definition_.segments.size());
  const std::int64_t boundary =
      options_.training ? slot % options_.slots * (last + 1) + last : last % 2;
  return shifted(boundaries_, boundary * boundary_bytes_);
}

std::int64_t Stage::grad_boundary(int slot, std::size_t boundary) const {
  const std::size_t boundaries = definition_.segments.size() + 1;
  return static_cast<std::int64_t>(options_.split_weight_grad
                                       ? slot % options_.late_slots * boundaries + boundary
                                       : boundary % 2) *
         boundary_bytes_;
}

void* Stage::output_grad(int slot) const {
  return shifted(grad_boundaries_, grad_boundary(slot, definition_.segments.size()));
}

void* Stage::input_grad(int slot) const {
  return shifted(grad_boundaries_, grad_boundary(slot, 0));
}

// Where a value of a segment's instance lives.
void* Stage::address(ValueId id, std::size_t segment, const Graph& graph, const SegmentPlan& plan,
                     int slot) const {
  if (id == no_value) return nullptr;
  const Value& value = graph.value(id);
  const SegmentInstance& instance = definition_.segments[segment];
  const auto at = [](void* base, std::int64_t offset) -> void* {
    TRIREME_CHECK(base != nullptr);
    return static_cast<std::byte*>(base) + offset;
  };
  const auto boundary = [&](std::size_t i) {
    const std::size_t index =
        options_.training ? slot % options_.slots * (definition_.segments.size() + 1) + i : i % 2;
    return at(boundaries_.data(),
              static_cast<std::int64_t>(index) * boundary_bytes_ + value.byte_offset);
  };
  switch (value.role) {
    case Role::parameter: {
      const int p = instance.parameters[value.index];
      if (!options_.parameter_windows) return at(parameter(p), value.byte_offset);
      return at(parameters_.data(),
                window_offset(segment, p) * size_of(definition_.compute) + value.byte_offset);
    }
    case Role::gradient: {
      const int p = instance.parameters[value.index];
      if (!options_.gradient_windows) return at(gradient(p), value.byte_offset);
      return at(gradients_.data(),
                window_offset(segment, p) * size_of(definition_.accumulate()) + value.byte_offset);
    }
    case Role::constant:
      return at(constant(static_cast<ConstantInput>(value.index)), value.byte_offset);
    case Role::batch:
      return at(batch(slot, static_cast<BatchInput>(value.index)), value.byte_offset);
    case Role::result:
      return at(result(slot, static_cast<ResultOutput>(value.index)), value.byte_offset);
    case Role::cache:
      return at(cache(static_cast<int>(segment), static_cast<CacheBuffer>(value.index)),
                value.byte_offset);
    case Role::input:
      return boundary(segment);
    case Role::output:
      return boundary(segment + 1);
    case Role::output_grad:
      return at(grad_boundaries_.data(), grad_boundary(slot, segment + 1) + value.byte_offset);
    case Role::input_grad:
      return at(grad_boundaries_.data(), grad_boundary(slot, segment) + value.byte_offset);
    case Role::internal:
      break;
  }
  const Placement& placement = plan.placements[id];
  switch (placement.arena) {
    case Arena::saved:
      return at(saved_.data(),
                slot % options_.slots * saved_bytes_ + saved_offsets_[segment] + placement.offset);
    case Arena::late_saved:
      return at(late_saved_.data(), slot % options_.late_slots * late_saved_bytes_ +
                                        late_saved_offsets_[segment] + placement.offset);
    case Arena::forward_scratch:
      return at(forward_scratch_.data(), placement.offset);
    case Arena::backward_scratch:
      return at(backward_scratch_.data(), placement.offset);
    case Arena::elsewhere:
    case Arena::count:
      break;
  }
  TRIREME_CHECK(!"an internal value has no place");
  return nullptr;
}

void Stage::add_program(PassProgram& program, std::size_t segment, const Graph& graph,
                        const SegmentPlan& plan, const std::vector<Node>& nodes, int slot) const {
  const std::size_t begin = program.instructions.size();
  for (const Node& node : nodes) {
    const OpDefinition& def = trireme::definition(node.op);
    if (!def.launch) continue;
    Instruction instruction{};
    instruction.graph = &graph;
    instruction.node = &node;
    instruction.launch = def.launch;
    instruction.prepared = graph.prepared(node);
    instruction.workspace = address(node.workspace, segment, graph, plan, slot);
    for (int i = 0; i < Node::max_inputs; ++i) {
      instruction.in[i] = address(node.inputs[i], segment, graph, plan, slot);
    }
    for (int i = 0; i < Node::max_outputs; ++i) {
      instruction.out[i] = address(node.outputs[i], segment, graph, plan, slot);
    }
    instruction.layer = definition_.segments[segment].layer;
    program.instructions.push_back(instruction);
  }
  program.runs.push_back({static_cast<int>(segment), begin, program.instructions.size()});
}

// The first instruction of a micro-batch that writes a gradient may overwrite it; later ones add.
// What lies in a window is taken away after each segment of a pass.
void Stage::mark_later_writers(SlotPrograms& programs) const {
  std::set<void*> written;
  for (PassProgram* pass : {&programs.backward, &programs.weight_grad}) {
    for (const PassProgram::Run& run : pass->runs) {
      if (options_.gradient_windows) written.clear();
      for (std::size_t i = run.begin; i < run.end; ++i) {
        Instruction& instruction = pass->instructions[i];
        bool first = true;
        for (int o = 0; o < Node::max_outputs; ++o) {
          const ValueId id = instruction.node->outputs[o];
          if (id == no_value || instruction.graph->value(id).role != Role::gradient) continue;
          first = written.insert(instruction.out[o]).second && first;
        }
        instruction.accumulates_always = !first;
      }
    }
  }
}

void Stage::resolve() {
  const std::size_t segments = definition_.segments.size();
  for (int slot = 0; options_.training && slot < turns_; ++slot) {
    SlotPrograms programs;
    for (std::size_t s = 0; s < segments; ++s) {
      const int t = definition_.segments[s].segment;
      const SegmentPlan& plan = train_plans_[t];
      add_program(programs.forward, s, *definition_.templates[t].train, plan, plan.forward, slot);
    }
    for (std::size_t s = segments; s-- > 0;) {
      const int t = definition_.segments[s].segment;
      const SegmentPlan& plan = train_plans_[t];
      const Graph& graph = *definition_.templates[t].train;
      add_program(programs.backward, s, graph, plan, plan.backward, slot);
      add_program(programs.weight_grad, s, graph, plan, plan.weight_grad, slot);
    }
    mark_later_writers(programs);
    programs_.push_back(std::move(programs));
  }
  for (std::size_t s = 0; s < segments; ++s) {
    const int t = definition_.segments[s].segment;
    add_program(eval_program_, s, *definition_.templates[t].eval, eval_plans_[t],
                eval_plans_[t].forward, 0);
  }
}

void Stage::poison_scratch(int slot, bool saved) const {
  if (!options_.poison) return;
  const auto fill = [](std::byte* data, std::int64_t bytes) {
    if (data) std::memset(data, 0xff, static_cast<std::size_t>(bytes));
  };
  fill(forward_scratch_.data(), forward_scratch_bytes_);
  fill(backward_scratch_.data(), backward_scratch_bytes_);
  if (saved && saved_.data())
    fill(saved_.data() + slot % options_.slots * saved_bytes_, saved_bytes_);
}

void Stage::run(Pass pass, const PassProgram& program, const StepBlock& step,
                bool first_micro_batch, Observer* observer) {
  const std::span<const Instruction> all = program.instructions;
  for (const PassProgram::Run& run : program.runs) {
    if (hooks_) hooks_->before(pass, run.segment);
    execute(all.subspan(run.begin, run.end - run.begin), step,
            first_micro_batch || options_.gradient_windows, group_, observer);
    if (hooks_) hooks_->after(pass, run.segment);
  }
}

void Stage::forward(int slot, const StepBlock& step, Observer* observer) {
  poison_scratch(slot, true);
  run(Pass::forward, programs_[slot].forward, step, false, observer);
}

void Stage::backward(int slot, const StepBlock& step, bool first_micro_batch, Observer* observer) {
  poison_scratch(slot, false);
  run(Pass::backward, programs_[slot].backward, step, first_micro_batch, observer);
}

void Stage::weight_grad(int slot, const StepBlock& step, bool first_micro_batch,
                        Observer* observer) {
  poison_scratch(slot, false);
  run(Pass::weight_grad, programs_[slot].weight_grad, step, first_micro_batch, observer);
}

void Stage::evaluate(const StepBlock& step, Observer* observer) {
  poison_scratch(0, false);
  run(Pass::evaluate, eval_program_, step, false, observer);
}

}  // namespace trireme
