// Validates a finished plan independently of the planner: replays the lists and tracks which value
// was last written to each byte range.
#include <map>
#include <set>

#include "graph/op.h"
#include "graph/planner.h"

namespace trireme {
namespace {

// A byte range of an arena that contains one value.
struct Held {
  std::int64_t end;
  ValueId value;
};

class Replay {
 public:
  Replay(const Graph& graph, const SegmentPlan& plan) : graph_(graph), plan_(plan) {}

  void run(const std::vector<Node>& list) {
    for (const Node& node : list) {
      for (const ValueId id : node.inputs) {
        if (id != no_value) check_readable(node, id);
      }
      if (!definition(node.op).launch) {
        seen_through_[node.outputs[0]] = node.inputs[0];
        continue;
      }
      if (node.workspace >= 0) use_scratch(plan_.workspaces[node.workspace]);
      for (const ValueId id : node.outputs) {
        if (id != no_value) write(id);
      }
      check_operands_apart(node);
    }
  }

  void leave_phase() { held_[static_cast<int>(Arena::scratch)].clear(); }

 private:
  // The internal ranges of a node's operands and scratch must not overlap, unless an operand is
  // declared to share the memory of another one.
  void check_operands_apart(const Node& node) const {
    std::vector<ValueId> all(node.inputs.begin(), node.inputs.end());
    all.insert(all.end(), node.outputs.begin(), node.outputs.end());
    std::erase(all, no_value);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Value& a = graph_.value(all[i]);
      const Placement& at = plan_.placements[all[i]];
      if (at.arena == Arena::elsewhere) continue;
      for (std::size_t j = i + 1; j < all.size(); ++j) {
        const Value& b = graph_.value(all[j]);
        if (a.storage != b.storage && overlap(at, a.bytes(), plan_.placements[all[j]], b.bytes()))
          report(node, all[j], "shares memory with another operand of the same node");
      }
      if (node.workspace < 0) continue;
      const Workspace& scratch = plan_.workspaces[node.workspace];
      if (overlap(at, a.bytes(), scratch.placement, scratch.bytes))
        report(node, all[i], "shares memory with the scratch of the same node");
    }
  }

  static bool overlap(const Placement& a, std::int64_t a_bytes, const Placement& b,
                      std::int64_t b_bytes) {
    return a.arena == b.arena && a.offset < b.offset + b_bytes && b.offset < a.offset + a_bytes;
  }

  void check_readable(const Node& node, ValueId id) const {
    const Placement& placement = plan_.placements[id];
    if (placement.arena == Arena::elsewhere) return;
    const auto& held = held_[static_cast<int>(placement.arena)];
    // Every byte must belong to this value or to parts placed in it.
    std::int64_t at = placement.offset;
    const std::int64_t end = at + graph_.value(id).bytes();
    while (at < end) {
      auto range = held.upper_bound(at);
      if (range == held.begin()) report(node, id, "is read before it is written");
      --range;
      if (range->second.end <= at) report(node, id, "is read before it is written");
      if (!carries(range->second.value, id)) report(node, id, "is read after it was overwritten");
      at = range->second.end;
    }
  }

  // Whether bytes last written as `writer` are valid for reading `reader`. A view sees its operand.
  // A value that no single node writes consists of the parts placed in it. An in-place result
  // invalidates its operand, whatever its shape.
  bool carries(ValueId writer, ValueId reader) const {
    if (writer == no_value) return false;  // the scratch of a node
    for (;;) {
      if (writer == reader) return true;
      const auto view = seen_through_.find(reader);
      if (view == seen_through_.end()) break;
      reader = view->second;
    }
    return !written_.contains(reader) &&
           graph_.value(writer).storage == graph_.value(reader).storage;
  }

  void write(ValueId id) {
    const Placement& placement = plan_.placements[id];
    if (placement.arena == Arena::elsewhere) return;
    written_.insert(id);
    hold(placement, graph_.value(id).bytes(), id);
  }

  // Scratch overwrites the values that it overlaps.
  void use_scratch(const Workspace& scratch) { hold(scratch.placement, scratch.bytes, no_value); }

  void hold(const Placement& placement, std::int64_t bytes, ValueId id) {
    auto& held = held_[static_cast<int>(placement.arena)];
    const std::int64_t begin = placement.offset, end = begin + bytes;
    auto range = held.lower_bound(begin);
    if (range != held.begin()) {
      auto before = std::prev(range);
      if (before->second.end > begin) {
        const Held old = before->second;
        before->second.end = begin;
        if (old.end > end) held[end] = old;
      }
    }
    for (range = held.lower_bound(begin); range != held.end() && range->first < end;) {
      const Held old = range->second;
      range = held.erase(range);
      if (old.end > end) held[end] = old;
    }
    held[begin] = {end, id};
  }

  [[noreturn]] void report(const Node& node, ValueId id, const char* what) const {
    fail("memory plan: operand %{} {} of {} {}", id, graph_.value(id).shape.text(),
         definition(node.op).name, what);
  }

  const Graph& graph_;
  const SegmentPlan& plan_;
  std::map<std::int64_t, Held> held_[static_cast<int>(Arena::count)];
  std::map<ValueId, ValueId> seen_through_;  // by view: the operand whose bytes it shows
  std::set<ValueId> written_;
};

}  // namespace

void validate_plan(const Graph& graph, const SegmentPlan& plan) {
  Replay replay(graph, plan);
  replay.run(plan.forward);
  replay.leave_phase();
  replay.run(plan.backward);
  replay.leave_phase();
  replay.run(plan.weight_grad);
}

}  // namespace trireme
