// Lifetimes by storage, then first-fit placement by descending size.
#include "graph/planner.h"

#include <algorithm>

#include "graph/op.h"

namespace trireme {
namespace {

constexpr int phases = 3;  // forward, backward, and weight gradients if separate

struct Lifetime {
  int first_phase = -1, last_phase = -1;
  int begin = 0, end = 0;  // positions in the first and in the last phase
};

std::vector<Lifetime> lifetimes(const Graph& graph, const SegmentPlan& plan) {
  std::vector<Lifetime> lives(graph.value_count());
  const std::vector<Node>* lists[phases] = {&plan.forward, &plan.backward, &plan.weight_grad};
  for (int phase = 0; phase < phases; ++phase) {
    for (std::size_t position = 0; position < lists[phase]->size(); ++position) {
      const auto touch = [&](ValueId id) {
        if (id == no_value) return;
        Lifetime& life = lives[graph.value(id).storage];
        if (life.first_phase < 0) {
          life.first_phase = phase;
          life.begin = static_cast<int>(position);
        }
        life.last_phase = phase;
        life.end = static_cast<int>(position);
      };
      const Node& node = (*lists[phase])[position];
      for (const ValueId id : node.inputs) touch(id);
      for (const ValueId id : node.outputs) touch(id);
    }
  }
  return lives;
}

struct Item {
  Placement* placement;
  std::int64_t bytes;
  int begin, end;
  std::int64_t offset = 0;
};

// Places items so that those alive at the same time do not overlap; returns the bytes needed.
std::int64_t pack(std::vector<Item>& items, bool reuse) {
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.bytes > b.bytes; });
  std::int64_t total = 0;
  std::vector<const Item*> placed;  // by offset
  for (Item& item : items) {
    std::int64_t offset = 0;
    for (const Item* other : placed) {
      const bool together = !reuse || (item.begin <= other->end && other->begin <= item.end);
      if (!together || offset >= other->offset + other->bytes) continue;
      if (offset + item.bytes <= other->offset) break;
      offset = other->offset + other->bytes;
    }
    item.offset = offset;
    total = std::max(total, offset + item.bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &item,
                         [](const Item* a, const Item* b) { return a->offset < b->offset; }),
        &item);
  }
  return total;
}

// Adds the scratch of each node of a list.
void add_workspaces(SegmentPlan& plan, const std::vector<Node>& nodes, std::vector<Item>& items) {
  for (std::size_t position = 0; position < nodes.size(); ++position) {
    if (nodes[position].workspace < 0) continue;
    Workspace& workspace = plan.workspaces[nodes[position].workspace];
    const int at = static_cast<int>(position);
    items.push_back({&workspace.placement, align_up(workspace.bytes), at, at});
  }
}

void place(const Graph& graph, SegmentPlan& plan) {
  const std::vector<Lifetime> lives = lifetimes(graph, plan);
  std::vector<Item> forward, backward, weight_grad;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    const Lifetime& life = lives[id];
    if (value.role != Role::internal || value.storage != id || life.first_phase < 0) continue;
    const std::int64_t bytes = align_up(value.bytes());
    if (life.first_phase != life.last_phase) {
      const bool late = life.first_phase == 1;
      std::int64_t& total = late ? plan.late_saved_bytes : plan.saved_bytes;
      plan.placements[id] = {late ? Arena::late_saved : Arena::saved, total};
      total += bytes;
      continue;
    }
    auto& list = life.first_phase == 0 ? forward : life.first_phase == 1 ? backward : weight_grad;
    list.push_back({&plan.placements[id], bytes, life.begin, life.end});
  }
  add_workspaces(plan, plan.forward, forward);
  add_workspaces(plan, plan.backward, backward);
  add_workspaces(plan, plan.weight_grad, weight_grad);
  for (std::vector<Item>* phase : {&forward, &backward, &weight_grad}) {
    plan.scratch_bytes = std::max(plan.scratch_bytes, pack(*phase, plan.options.reuse));
    for (const Item& item : *phase) *item.placement = {Arena::scratch, item.offset};
  }
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.role != Role::internal || value.storage == id) continue;
    plan.placements[id] = plan.placements[value.storage];
    plan.placements[id].offset += value.byte_offset;
  }
}

void size_workspaces(const Graph& graph, SegmentPlan& plan, const Target& target) {
  for (std::vector<Node>* list : {&plan.forward, &plan.backward, &plan.weight_grad}) {
    for (Node& node : *list) {
      const OpDefinition& op = definition(node.op);
      const std::int64_t bytes = op.workspace ? op.workspace(target, graph, node) : 0;
      if (bytes == 0) continue;
      node.workspace = static_cast<std::int32_t>(plan.workspaces.size());
      plan.workspaces.push_back({bytes, {}});
    }
  }
}

}  // namespace

SegmentPlan plan_segment(const Graph& graph, const PlanOptions& options, const Target* target) {
  SegmentPlan plan;
  plan.options = options;
  plan.placements.resize(graph.value_count());
  if (!options.training || !options.forward_in_backward) plan.forward = graph.forward;
  if (options.training) {
    for (const Node& node : graph.backward) {
      const bool later = options.split_weight_grad && node.phase == Phase::weight_grad;
      (later ? plan.weight_grad : plan.backward).push_back(node);
    }
  }
  if (target) size_workspaces(graph, plan, *target);
  place(graph, plan);
  validate_plan(graph, plan);
  return plan;
}

}  // namespace trireme
