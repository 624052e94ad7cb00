// Plans a stage's memory: the size of each region, for one shape or the maximum over several.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "runtime/stage.h"

namespace trireme {
namespace {

// Sum of the sizes over all kinds.
template <std::size_t n>
std::int64_t sum_of(const std::int64_t (&bytes)[n]) {
  std::int64_t sum = 0;
  for (const std::int64_t b : bytes) sum += align_up(b);
  return sum;
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
  if (!options_.slot_memory) own_slots_ = std::make_unique<SlotMemory>(1);
  if (options_.late_slots == 0) options_.late_slots = slots().slots();
  make_plan();
}

void Stage::check_flat_layout() const {
  const auto& parameters = definition_.parameters;
  std::vector<int> order(parameters.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return parameters[a].offset < parameters[b].offset; });
  std::int64_t end = 0;
  for (const int p : order) {
    TRIREME_CHECK(parameters[p].offset >= end);
    end = parameters[p].offset + parameters[p].spec.shape.count();
  }
  TRIREME_CHECK(end <= definition_.flat_elements);
  if (!options_.parameter_windows && !options_.gradient_windows) return;
  TRIREME_CHECK(definition_.windows.size() == definition_.segments.size());
  for (std::size_t s = 0; s < definition_.segments.size(); ++s) {
    for (const int p : definition_.segments[s].parameters) {
      const auto holds = [&](const FlatRange& range) {
        return parameters[p].offset >= range.begin &&
               parameters[p].offset + parameters[p].spec.shape.count() <=
                   range.begin + range.elements;
      };
      const auto& window = definition_.windows[s];
      TRIREME_CHECK(std::any_of(window.begin(), window.end(), holds));
    }
  }
}

void Stage::make_plan() {
  check_flat_layout();
  plan_templates();
  plan_activation_windows();
  plan_segments();
  plan_windows();
  // A borrowed region has the owner's layout, whose tables may be longer than needed here.
  if (options_.shares) {
    const StagePlan& owner = options_.shares->plan_;
    TRIREME_CHECK(definition_.flat_elements == options_.shares->definition_.flat_elements);
    TRIREME_CHECK(plan_.cache_offsets == owner.cache_offsets);
    TRIREME_CHECK(plan_.needs[StageRegion::caches] == owner.needs[StageRegion::caches]);
    for (std::size_t kind = 0; kind < std::size(plan_.constant_bytes); ++kind) {
      TRIREME_CHECK(plan_.constant_bytes[kind] <= owner.constant_bytes[kind]);
      plan_.constant_bytes[kind] = owner.constant_bytes[kind];
    }
  }
  const std::int64_t elements = definition_.flat_elements,
                     in_windows = plan_.windows[0] + plan_.windows[1];
  const auto boundaries = static_cast<std::int64_t>(definition_.segments.size()) + 1;
  const bool train = options_.training;
  plan_.needs[StageRegion::parameters] =
      (options_.parameter_windows ? in_windows : elements) * size_of(definition_.compute);
  plan_.needs[StageRegion::block_inputs] =
      (train ? boundaries - windowed() : 2) * plan_.boundary_bytes +
      windowed() * plan_.input_part_bytes;
  plan_.needs[StageRegion::activation_windows] = activation_windows() * plan_.window_bytes;
  plan_.needs[StageRegion::batch] = sum_of(plan_.batch_bytes);
  plan_.needs[StageRegion::results] = sum_of(plan_.result_bytes);
  plan_.needs[StageRegion::constants] = sum_of(plan_.constant_bytes);
  if (train) {
    plan_.needs[StageRegion::gradients] =
        options_.gradient_windows ? plan_.gradient_windows[0] + plan_.gradient_windows[1]
                                  : elements * size_of(definition_.gradients());
    // Deferred weight gradients still read the gradient that entered their segment.
    plan_.needs[StageRegion::activation_grads] =
        (options_.split_weight_grad ? boundaries : 2) * plan_.boundary_bytes;
  }
  for (const StageRegion region : all_regions) {
    if (is_of_slot(region)) {
      slots().fit(region, plan_.needs[region]);
    } else if (!borrows(region)) {
      TRIREME_CHECK(plan_.needs[region] <= reserved_[region] || !allocated_);
      reserved_[region] = std::max(reserved_[region], plan_.needs[region]);
    }
  }
}

bool Stage::borrows(StageRegion region) const {
  return options_.shares && (region == StageRegion::parameters || region == StageRegion::caches ||
                             region == StageRegion::constants);
}

// Computes the templates' plans, and the sizes of regions shared by all segments.
void Stage::plan_templates() {
  const auto grow = [&](StageRegion region, std::int64_t bytes) {
    plan_.needs[region] = std::max(plan_.needs[region], bytes);
  };
  for (const SegmentTemplate& segment : definition_.templates) {
    PlanOptions plan_options;
    plan_options.forward_in_backward = segment.forward_in_backward;
    // A head's weight gradients run immediately: deferring them would keep the logits alive.
    plan_options.split_weight_grad = options_.split_weight_grad && !segment.forward_in_backward;
    plan_options.reuse = options_.reuse;
    if (options_.training)
      plan_.train_plans.push_back(plan_segment(*segment.train, plan_options, &device().target()));
    plan_options.training = false;
    plan_.eval_plans.push_back(plan_segment(*segment.eval, plan_options, &device().target()));
    for (const SegmentPlan* p :
         {&plan_.eval_plans.back(), options_.training ? &plan_.train_plans.back() : nullptr}) {
      if (p) grow(StageRegion::scratch, p->scratch_bytes);
    }
    for (const Graph* graph : {segment.train.get(), segment.eval.get()}) {
      if (!graph) continue;
      for (ValueId id = 0; id < graph->value_count(); ++id) {
        const Value& value = graph->value(id);
        if (graph->is_view(id)) continue;
        const auto fit = [&](std::int64_t& bytes) { bytes = std::max(bytes, value.bytes()); };
        if (value.role == Role::batch) fit(plan_.batch_bytes[value.index]);
        if (value.role == Role::result) fit(plan_.result_bytes[value.index]);
        if (value.role == Role::constant) fit(plan_.constant_bytes[value.index]);
        if (value.role == Role::input || value.role == Role::output) fit(plan_.boundary_bytes);
      }
    }
  }
  plan_.boundary_bytes = align_up(plan_.boundary_bytes);
}

// Computes the offsets of each segment's own values.
void Stage::plan_segments() {
  std::int64_t saved = 0, late_saved = 0, caches = 0;
  for (const SegmentInstance& instance : definition_.segments) {
    plan_.saved_offsets.push_back(saved);
    plan_.late_saved_offsets.push_back(late_saved);
    if (options_.training) {
      if (!saves_in_window(plan_.saved_offsets.size() - 1))
        saved += plan_.train_plans[instance.segment].saved_bytes;
      late_saved += plan_.train_plans[instance.segment].late_saved_bytes;
    }
    plan_.cache_offsets.push_back(caches);
    const Graph& graph = *definition_.templates[instance.segment].eval;
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      if (graph.value(id).role == Role::cache) caches += align_up(graph.value(id).bytes());
    }
  }
  plan_.needs[StageRegion::saved] = saved;
  plan_.needs[StageRegion::late_saved] = late_saved;
  plan_.needs[StageRegion::caches] = caches;
}

void Stage::plan_windows() {
  if (!options_.parameter_windows && !options_.gradient_windows) return;
  for (std::size_t s = 0; s < definition_.windows.size(); ++s) {
    std::int64_t elements = 0, gradients = 0;
    for (const FlatRange& range : definition_.windows[s]) {
      elements += range.elements;
      gradients += range.gradient_bytes(definition_.gradients());
    }
    plan_.windows[s % 2] = std::max(plan_.windows[s % 2], elements);
    plan_.gradient_windows[s % 2] = std::max(plan_.gradient_windows[s % 2], gradients);
  }
}

int Stage::copies(StageRegion region) const {
  const bool late = region == StageRegion::late_saved ||
                    (region == StageRegion::activation_grads && options_.split_weight_grad);
  return late ? options_.late_slots : 1;
}

MemoryPlan Stage::memory() const {
  MemoryPlan plan;
  for (const StageRegion region : all_regions) {
    std::string name = name_of(region);
    if (region == StageRegion::parameters && options_.parameter_windows)
      name = "gathered parameters";
    if (region == StageRegion::gradients && options_.gradient_windows)
      name = "gradients of a segment";
    std::int64_t bytes = reserved_[region] * copies(region);
    if (is_of_slot(region)) bytes = own_slots_ ? own_slots_->bytes(region) * slots().slots() : 0;
    plan.add(std::move(name), bytes);
  }
  return plan;
}

void Stage::allocate(const RankGroups& groups) {
  groups_ = groups;
  if (own_slots_) own_slots_->allocate(device());
  for (const StageRegion region : all_regions)
    blocks_[region] = MemoryBlock(device(), reserved_[region] * copies(region), name_of(region));
  allocated_ = true;
  make_programs();
}

void Stage::reserve(StageDefinition shape) {
  TRIREME_CHECK(!options_.shares && !allocated_);
  StageOptions options = options_;
  options.slot_memory = &slots();
  const Stage other(std::move(shape), options);
  TRIREME_CHECK(other.definition_.flat_elements == definition_.flat_elements);
  for (const StageRegion region : all_regions)
    reserved_[region] = std::max(reserved_[region], other.reserved_[region]);
}

void Stage::reshape(StageDefinition shape) {
  TRIREME_CHECK(shape.parameters.size() == definition_.parameters.size() &&
                shape.flat_elements == definition_.flat_elements);
  definition_ = std::move(shape);
  plan_ = {};
  make_plan();
  make_programs();
}

}  // namespace trireme
