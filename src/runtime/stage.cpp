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

std::int64_t StageDefinition::parameter_elements() const {
  if (parameters.empty()) return 0;
  const Parameter& last = parameters.back();
  return last.offset + align_up(last.spec.shape.count());
}

void lay_out_parameters(std::vector<Parameter>& parameters) {
  std::int64_t offset = 0;
  for (Parameter& parameter : parameters) {
    parameter.offset = offset;
    offset += align_up(parameter.spec.shape.count());
  }
}

Stage::Stage(StageDefinition definition, const StageOptions& options)
    : definition_(std::move(definition)), options_(options) {
  plan();
}

void Stage::plan() {
  for (const SegmentTemplate& segment : definition_.templates) {
    PlanOptions plan_options;
    plan_options.forward_in_backward = segment.forward_in_backward;
    plan_options.split_weight_grad = options_.split_weight_grad;
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
    if (options_.training) saved_bytes_ += train_plans_[instance.segment].saved_bytes;
    cache_offsets_.push_back(cache_bytes_);
    const Graph& graph = *definition_.templates[instance.segment].eval;
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      if (graph.value(id).role == Role::cache) cache_bytes_ += align_up(graph.value(id).bytes());
    }
  }

  const std::int64_t elements = definition_.parameter_elements();
  const auto boundaries = static_cast<std::int64_t>(definition_.segments.size()) + 1;
  const bool train = options_.training, own = options_.shares == nullptr;
  memory_.add("parameters", own ? elements * size_of(definition_.compute) : 0);
  memory_.add("gradients", train ? elements * size_of(definition_.accumulate()) : 0);
  memory_.add("block inputs", (train ? boundaries * options_.slots : 2) * boundary_bytes_);
  memory_.add("saved activations", saved_bytes_ * options_.slots);
  memory_.add("key/value cache", own ? cache_bytes_ : 0);
  memory_.add("forward scratch", forward_scratch_bytes_);
  memory_.add("backward scratch", backward_scratch_bytes_);
  // Weight gradients that run later still read the gradients that entered their segment.
  memory_.add(
      "gradients of activations",
      train ? (options_.split_weight_grad ? boundaries * options_.slots : 2) * boundary_bytes_ : 0);
  memory_.add("micro-batches", prefix(batch_bytes_, batch_kinds) * options_.slots);
  memory_.add("results", prefix(result_bytes_, result_kinds) * options_.slots);
  memory_.add("tables", own ? prefix(constant_bytes_, constant_kinds) : 0);
}

void Stage::allocate(RankGroup* group) {
  group_ = group;
  MemoryBlock* blocks[] = {&parameters_, &gradients_,       &boundaries_,       &saved_,
                           &caches_,     &forward_scratch_, &backward_scratch_, &grad_boundaries_,
                           &batches_,    &results_,         &constants_};
  TRIREME_CHECK(std::size(blocks) == memory_.regions.size());
  for (std::size_t i = 0; i < std::size(blocks); ++i)
    *blocks[i] = MemoryBlock(memory_.regions[i].bytes);
  resolve();
}

void* Stage::parameter(int index) const {
  if (options_.shares) return options_.shares->parameter(index);
  return shifted(parameters_, definition_.parameters[index].offset * size_of(definition_.compute));
}

void* Stage::gradient(int index) const {
  return shifted(gradients_,
                 definition_.parameters[index].offset * size_of(definition_.accumulate()));
}

void* Stage::batch(int slot, BatchInput which) const {
  const int kind = static_cast<int>(which);
  if (batch_bytes_[kind] == 0) return nullptr;
  return shifted(batches_, prefix(batch_bytes_, batch_kinds) * slot + prefix(batch_bytes_, kind));
}

void* Stage::result(int slot, ResultOutput which) const {
  const int kind = static_cast<int>(which);
  if (result_bytes_[kind] == 0) return nullptr;
  return shifted(results_,
                 prefix(result_bytes_, result_kinds) * slot + prefix(result_bytes_, kind));
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
  return shifted(boundaries_, options_.training ? slot * per_slot * boundary_bytes_ : 0);
}

void* Stage::stage_output(int slot) const {
  const auto last = static_cast<std::int64_t>(definition_.segments.size());
  const std::int64_t boundary = options_.training ? slot * (last + 1) + last : last % 2;
  return shifted(boundaries_, boundary * boundary_bytes_);
}

std::int64_t Stage::grad_boundary(int slot, std::size_t boundary) const {
  const std::size_t boundaries = definition_.segments.size() + 1;
  return static_cast<std::int64_t>(options_.split_weight_grad ? slot * boundaries + boundary
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
        options_.training ? slot * (definition_.segments.size() + 1) + i : i % 2;
    return at(boundaries_.data(),
              static_cast<std::int64_t>(index) * boundary_bytes_ + value.byte_offset);
  };
  switch (value.role) {
    case Role::parameter:
      return at(parameter(instance.parameters[value.index]), value.byte_offset);
    case Role::gradient:
      return at(gradient(instance.parameters[value.index]), value.byte_offset);
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
      return at(saved_.data(), slot * saved_bytes_ + saved_offsets_[segment] + placement.offset);
    case Arena::forward_scratch:
      return at(forward_scratch_.data(), placement.offset);
    case Arena::backward_scratch:
      return at(backward_scratch_.data(), placement.offset);
    case Arena::elsewhere:
      break;
  }
  TRIREME_CHECK(!"an internal value has no place");
  return nullptr;
}

void Stage::add_program(Program& program, std::size_t segment, const Graph& graph,
                        const SegmentPlan& plan, const std::vector<Node>& nodes, int slot) const {
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
    program.push_back(instruction);
  }
}

namespace {

// The first instruction of a micro-batch that writes a gradient may overwrite it; later ones add.
void mark_later_writers(Program& program, std::set<void*>& written) {
  for (Instruction& instruction : program) {
    bool first = true;
    for (int i = 0; i < Node::max_outputs; ++i) {
      const ValueId id = instruction.node->outputs[i];
      if (id == no_value || instruction.graph->value(id).role != Role::gradient) continue;
      first = written.insert(instruction.out[i]).second && first;
    }
    instruction.accumulates_always = !first;
  }
}

}  // namespace

void Stage::resolve() {
  const std::size_t segments = definition_.segments.size();
  for (int slot = 0; options_.training && slot < options_.slots; ++slot) {
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
    std::set<void*> written;
    mark_later_writers(programs.backward, written);
    mark_later_writers(programs.weight_grad, written);
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
  if (saved && saved_.data()) fill(saved_.data() + slot * saved_bytes_, saved_bytes_);
}

void Stage::forward(int slot, const StepBlock& step, Observer* observer) {
  poison_scratch(slot, true);
  execute(programs_[slot].forward, step, false, group_, observer);
}

void Stage::backward(int slot, const StepBlock& step, bool first_micro_batch, Observer* observer) {
  poison_scratch(slot, false);
  execute(programs_[slot].backward, step, first_micro_batch, group_, observer);
}

void Stage::weight_grad(int slot, const StepBlock& step, bool first_micro_batch,
                        Observer* observer) {
  poison_scratch(slot, false);
  execute(programs_[slot].weight_grad, step, first_micro_batch, group_, observer);
}

void Stage::evaluate(const StepBlock& step, Observer* observer) {
  poison_scratch(0, false);
  execute(eval_program_, step, false, group_, observer);
}

}  // namespace trireme
