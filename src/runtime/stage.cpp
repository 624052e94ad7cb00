// Addresses of a stage's values, and execution of its passes.
#include "runtime/stage.h"

#include <set>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

// Total size of the first `end` aligned entries, i.e. the offset of entry `end`.
std::int64_t prefix(const std::int64_t* bytes, int end) {
  std::int64_t sum = 0;
  for (int i = 0; i < end; ++i) sum += align_up(bytes[i]);
  return sum;
}

const std::vector<Node>& nodes_of(const SegmentPlan& plan, Pass pass) {
  switch (pass) {
    case Pass::backward:
      return plan.backward;
    case Pass::weight_grad:
      return plan.weight_grad;
    case Pass::forward:
    case Pass::evaluate:
      break;
  }
  return plan.forward;
}

}  // namespace

// --- regions ---

std::byte* Stage::base(StageRegion region, Slot slot) const {
  if (is_of_slot(region)) return slots().at(region, slot.index);
  std::byte* begin = (borrows(region) ? options_.shares : this)->blocks_[region].data();
  if (!begin || copies(region) == 1) return begin;
  TRIREME_CHECK(slot.late >= 0 && slot.late < options_.late_slots);
  return begin + slot.late * reserved_[region];
}

RegionBases Stage::bases(Slot slot) const {
  RegionBases bases;
  for (const StageRegion region : all_regions) bases[region] = base(region, slot);
  return bases;
}

void* Stage::at(Operand operand, Slot slot) const {
  if (operand.absent()) return nullptr;
  std::byte* begin = base(operand.region, slot);
  return begin ? begin + operand.offset : nullptr;
}

// Offset in bytes from the start of the region.
std::int64_t Stage::parameter_offset(std::size_t segment, int parameter) const {
  const std::int64_t offset = definition_.parameters[parameter].offset;
  const std::int64_t size = size_of(definition_.compute);
  if (!options_.parameter_windows) return offset * size;
  std::int64_t begin = segment % 2 ? plan_.windows[0] : 0;
  for (const FlatRange& range : definition_.windows[segment]) {
    if (offset >= range.begin && offset < range.begin + range.elements)
      return (begin + offset - range.begin) * size;
    begin += range.elements;
  }
  TRIREME_CHECK(!"a segment's window lacks a parameter");
  return 0;
}

// Same for gradients.
std::int64_t Stage::gradient_offset(std::size_t segment, int parameter) const {
  const std::int64_t offset = definition_.parameters[parameter].offset;
  const DType made = definition_.gradients();
  if (!options_.gradient_windows) return offset * size_of(made);
  std::int64_t begin = segment % 2 ? plan_.gradient_windows[0] : 0;
  for (const FlatRange& range : definition_.windows[segment]) {
    if (offset >= range.begin && offset < range.begin + range.elements)
      return begin + (offset - range.begin) * size_of(range.gradients(made));
    begin += range.gradient_bytes(made);
  }
  TRIREME_CHECK(!"a segment's window lacks a parameter");
  return 0;
}

std::byte* Stage::flat_parameters() const {
  TRIREME_CHECK(!options_.parameter_windows);
  return blocks_[StageRegion::parameters].data();
}

std::byte* Stage::flat_gradients() const {
  TRIREME_CHECK(!options_.gradient_windows);
  return blocks_[StageRegion::gradients].data();
}

std::byte* Stage::parameter_window(int segment) const {
  TRIREME_CHECK(options_.parameter_windows);
  return blocks_[StageRegion::parameters].data() +
         (segment % 2 ? plan_.windows[0] : 0) * size_of(definition_.compute);
}

std::byte* Stage::gradient_window(int segment) const {
  TRIREME_CHECK(options_.gradient_windows);
  return blocks_[StageRegion::gradients].data() + (segment % 2 ? plan_.gradient_windows[0] : 0);
}

bool Stage::reads_parameters(Pass pass, int segment) const {
  const int t = definition_.segments[segment].segment;
  const bool evaluate = pass == Pass::evaluate;
  const SegmentTemplate& graphs = definition_.templates[t];
  const Graph& graph = evaluate ? *graphs.eval : *graphs.train;
  for (const Node& node : nodes_of(segment_plan(t, !evaluate), pass)) {
    for (const ValueId id : node.inputs) {
      if (id != no_value && graph.value(id).role == Role::parameter) return true;
    }
  }
  return false;
}

void* Stage::parameter(int index) const {
  TRIREME_CHECK(!options_.parameter_windows);
  return at({StageRegion::parameters,
             definition_.parameters[index].offset * size_of(definition_.compute)},
            0);
}

void* Stage::gradient(int index) const {
  TRIREME_CHECK(!options_.gradient_windows);
  return at({StageRegion::gradients,
             definition_.parameters[index].offset * size_of(definition_.gradients())},
            0);
}

void* Stage::batch(Slot slot, BatchInput which) const {
  const int kind = static_cast<int>(which);
  if (plan_.batch_bytes[kind] == 0) return nullptr;
  return at({StageRegion::batch, prefix(plan_.batch_bytes, kind)}, slot);
}

void* Stage::result(Slot slot, ResultOutput which) const {
  const int kind = static_cast<int>(which);
  if (plan_.result_bytes[kind] == 0) return nullptr;
  return at({StageRegion::results, prefix(plan_.result_bytes, kind)}, slot);
}

void* Stage::constant(ConstantInput which) const {
  const int kind = static_cast<int>(which);
  if (plan_.constant_bytes[kind] == 0) return nullptr;
  return at({StageRegion::constants, prefix(plan_.constant_bytes, kind)}, 0);
}

Operand Stage::cache_operand(std::size_t segment, CacheBuffer which) const {
  const Graph& graph = *definition_.templates[definition_.segments[segment].segment].eval;
  std::int64_t offset = plan_.cache_offsets[segment];
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.role != Role::cache) continue;
    if (value.index == static_cast<int>(which)) return {StageRegion::caches, offset};
    offset += align_up(value.bytes());
  }
  return {};
}

void* Stage::cache(int segment, CacheBuffer which) const {
  return at(cache_operand(static_cast<std::size_t>(segment), which), 0);
}

// Without training, two buffers alternate as the activations between segments; their gradients
// alternate too, unless weight gradients are deferred.
Operand Stage::activation(std::size_t i) const {
  const auto segment = static_cast<int>(i);
  if (has_window(segment))
    return {StageRegion::activation_windows, window_of(segment) * plan_.window_bytes};
  if (!options_.training)
    return {StageRegion::block_inputs, static_cast<std::int64_t>(i % 2) * plan_.boundary_bytes};
  const int elsewhere = segment < first_windowed() ? 0 : windowed();
  return {StageRegion::block_inputs, (segment - elsewhere) * plan_.boundary_bytes};
}

std::int64_t Stage::grad_boundary(std::size_t i) const {
  return static_cast<std::int64_t>(options_.split_weight_grad ? i : i % 2) * plan_.boundary_bytes;
}

void* Stage::stage_input(Slot slot) const {
  return at(activation(0), slot);
}

void* Stage::stage_output(Slot slot) const {
  return at(activation(definition_.segments.size()), slot);
}

void* Stage::output_grad(Slot slot) const {
  return at({StageRegion::activation_grads, grad_boundary(definition_.segments.size())}, slot);
}

void* Stage::input_grad(Slot slot) const {
  return at({StageRegion::activation_grads, grad_boundary(0)}, slot);
}

// --- programs ---

Operand Stage::operand(ValueId id, std::size_t segment, const Graph& graph,
                       const SegmentPlan& plan) const {
  if (id == no_value) return {};
  const Value& value = graph.value(id);
  const auto in = [&](StageRegion region, std::int64_t offset) {
    return Operand{region, offset + value.byte_offset};
  };
  const auto index = [&] { return definition_.segments[segment].parameters[value.index]; };
  switch (value.role) {
    case Role::parameter:
      return in(StageRegion::parameters, parameter_offset(segment, index()));
    case Role::gradient:
      return in(StageRegion::gradients, gradient_offset(segment, index()));
    case Role::constant:
      return in(StageRegion::constants, prefix(plan_.constant_bytes, value.index));
    case Role::batch:
      return in(StageRegion::batch, prefix(plan_.batch_bytes, value.index));
    case Role::result:
      return in(StageRegion::results, prefix(plan_.result_bytes, value.index));
    case Role::cache:
      return in(StageRegion::caches,
                cache_operand(segment, static_cast<CacheBuffer>(value.index)).offset);
    case Role::input:
      return in(activation(segment).region, activation(segment).offset);
    case Role::output:
      return in(activation(segment + 1).region, activation(segment + 1).offset);
    case Role::output_grad:
      return in(StageRegion::activation_grads, grad_boundary(segment + 1));
    case Role::input_grad:
      return in(StageRegion::activation_grads, grad_boundary(segment));
    case Role::internal:
      break;
  }
  return place(segment, plan.placements[id]);
}

Operand Stage::place(std::size_t segment, const Placement& placement) const {
  switch (placement.arena) {
    case Arena::saved:
      if (saves_in_window(segment))
        return {StageRegion::activation_windows,
                activation(segment).offset + plan_.boundary_bytes + placement.offset};
      return {StageRegion::saved, plan_.saved_offsets[segment] + placement.offset};
    case Arena::late_saved:
      return {StageRegion::late_saved, plan_.late_saved_offsets[segment] + placement.offset};
    case Arena::scratch:
      return {StageRegion::scratch, placement.offset};
    case Arena::elsewhere:
    case Arena::count:
      break;
  }
  TRIREME_CHECK(!"an internal value has no place");
  return {};
}

void Stage::add_program(PassProgram& program, std::size_t segment, const Graph& graph,
                        const SegmentPlan& plan, const std::vector<Node>& nodes) {
  const std::size_t begin = program.instructions.size();
  for (const Node& node : nodes) {
    const OpDefinition& def = trireme::definition(node.op);
    if (!def.launch) continue;
    Instruction instruction{};
    instruction.graph = &graph;
    instruction.node = &node;
    instruction.launch = def.launch;
    if (def.prepare) {
      prepared_.push_back(def.prepare(device(), graph, node));
      instruction.prepared = prepared_.back().get();
    }
    if (node.workspace >= 0)
      instruction.workspace = place(segment, plan.workspaces[node.workspace].placement);
    for (int i = 0; i < Node::max_inputs; ++i)
      instruction.in[i] = operand(node.inputs[i], segment, graph, plan);
    for (int i = 0; i < Node::max_outputs; ++i)
      instruction.out[i] = operand(node.outputs[i], segment, graph, plan);
    instruction.layer = definition_.segments[segment].layer;
    program.instructions.push_back(instruction);
  }
  program.runs.push_back({static_cast<int>(segment), begin, program.instructions.size()});
}

// The first instruction of a micro-batch that writes a gradient may overwrite it; later ones add.
// With windows, gradients are moved out after each segment of a pass.
void Stage::mark_later_writers() {
  std::set<Operand> written;
  for (PassProgram* pass : {&backward_, &weight_grad_}) {
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

void Stage::make_programs() {
  forward_ = backward_ = weight_grad_ = evaluate_ = {};
  // Kept until the end of this function: new programs share what the old ones had prepared.
  const std::vector<std::shared_ptr<const void>> previous = std::exchange(prepared_, {});
  const std::size_t segments = definition_.segments.size();
  const auto add = [&](PassProgram& program, std::size_t s, Pass pass) {
    const int t = definition_.segments[s].segment;
    const SegmentTemplate& graphs = definition_.templates[t];
    const bool evaluate = pass == Pass::evaluate;
    const SegmentPlan& plan = segment_plan(t, !evaluate);
    add_program(program, s, evaluate ? *graphs.eval : *graphs.train, plan, nodes_of(plan, pass));
  };
  for (std::size_t s = 0; s < segments; ++s) add(evaluate_, s, Pass::evaluate);
  if (!options_.training) return;
  for (std::size_t s = 0; s < segments; ++s) add(forward_, s, Pass::forward);
  for (std::size_t s = segments; s-- > 0;) {
    add(backward_, s, Pass::backward);
    add(weight_grad_, s, Pass::weight_grad);
  }
  mark_later_writers();
}

// --- passes ---

void Stage::poison(std::byte* begin, std::int64_t bytes) const {
  if (options_.poison && begin && bytes > 0) device().queue().fill(begin, 0xff, bytes);
}

void Stage::poison_parameters(int segment) const {
  poison(parameter_window(segment), plan_.windows[segment % 2] * size_of(definition_.compute));
}

const Stage::PassProgram& Stage::program(Pass pass) const {
  switch (pass) {
    case Pass::forward:
      return forward_;
    case Pass::backward:
      return backward_;
    case Pass::weight_grad:
      return weight_grad_;
    case Pass::evaluate:
      break;
  }
  return evaluate_;
}

// Poisons everything the pass writes. Windows follow segment by segment.
void Stage::begin(const PassCall& call) {
  if (call.observer) call.observer->begin(*this, call);
  if (!options_.poison) return;
  const RegionBases all = bases(call.slot);
  const auto fill = [&](StageRegion region) { poison(all[region], plan_.needs[region]); };
  const auto fill_boundary = [&](Operand of) {
    if (all[of.region]) poison(all[of.region] + of.offset, plan_.boundary_bytes);
  };
  // Windows are filled later, as they become free.
  const auto fill_activation = [&](std::size_t i) {
    if (!has_window(static_cast<int>(i))) fill_boundary(activation(i));
  };
  const auto count = static_cast<std::size_t>(segments());
  fill(StageRegion::scratch);
  switch (call.pass) {
    case Pass::forward:
      fill(StageRegion::saved);
      fill(StageRegion::results);
      for (std::size_t i = 1; i <= count; ++i) fill_activation(i);
      break;
    case Pass::evaluate:
      fill(StageRegion::results);
      for (std::size_t i = 1; i <= count && options_.training; ++i) fill_activation(i);
      break;
    case Pass::backward:
      fill(StageRegion::late_saved);
      // Each gradient has a first writer in a step, which overwrites it.
      if (call.first_micro_batch) fill(StageRegion::gradients);
      // The incoming gradient is already there.
      for (std::size_t i = 0; i < count; ++i) {
        if (grad_boundary(i) != grad_boundary(count))
          fill_boundary({StageRegion::activation_grads, grad_boundary(i)});
      }
      break;
    case Pass::weight_grad:
      break;
  }
}

void Stage::run_segment(const PassCall& call, int segment) {
  const bool makes_gradients = call.pass == Pass::backward || call.pass == Pass::weight_grad;
  if (makes_gradients && options_.gradient_windows) {
    poison(gradient_window(segment), plan_.gradient_windows[segment % 2]);
  }
  const PassProgram& all = program(call.pass);
  const PassProgram::Run& run =
      all.runs[runs_along(call.pass) ? segment : segments() - 1 - segment];
  TRIREME_CHECK(run.segment == segment);
  const std::span<const Instruction> instructions = all.instructions;
  execute(instructions.subspan(run.begin, run.end - run.begin), bases(call.slot),
          {device(), groups_, call.step, call.first_micro_batch || options_.gradient_windows,
           call.fixed_point, call.observer});
}

void Stage::run(const PassCall& call) {
  begin(call);
  for (int i = 0; i < segments(); ++i) run_segment(call, segment_at(call.pass, i));
}

}  // namespace trireme
