// Clones forward nodes into the backward list on demand.
#include "graph/recompute.h"

#include <algorithm>
#include <utility>

#include "graph/op.h"

namespace trireme {
namespace {

class Rewriter {
 public:
  Rewriter(Graph& graph, Recompute how) : graph_(graph), how_(how) {
    forward_values_ = graph.value_count();
    producer_.assign(forward_values_, -1);
    clone_.assign(forward_values_, no_value);
    for (std::size_t n = 0; n < graph.forward.size(); ++n) {
      for (const ValueId output : graph.forward[n].outputs) {
        if (output != no_value) producer_[output] = static_cast<int>(n);
      }
    }
  }

  void run() {
    std::vector<Node> old = std::exchange(graph_.backward, {});
    for (Node& node : old) {
      for (ValueId& input : node.inputs) input = available(input);
      for (const ValueId output : node.outputs) follow_owner(output);
      graph_.backward.push_back(std::move(node));
    }
    // An assembled or in-place value may have been read before its owner was cloned.
    for (ValueId id = 0; id < forward_values_; ++id) {
      if (producer_[id] < 0) follow_owner(id);
    }
  }

 private:
  bool kept(ValueId id) const {
    if (graph_.value(id).role != Role::internal || producer_[id] < 0) return true;
    if (how_ == Recompute::full) return false;
    const ValueId owner = graph_.value(id).storage;
    return how_ == Recompute::none || producer_[owner] < 0 ||
           !definition(graph_.forward[producer_[owner]].op).cheap;
  }

  // Returns the value itself, or its copy recomputed in the backward pass.
  ValueId available(ValueId id) {
    if (id == no_value || id >= forward_values_ || kept(id)) return id;
    if (clone_[id] == no_value) clone_node(producer_[id]);
    return clone_[id];
  }

  void clone_node(int index) {
    Node node = graph_.forward[index];
    node.phase = Phase::input_grad;
    for (ValueId& input : node.inputs) input = available(input);
    for (ValueId& output : node.outputs) {
      if (output == no_value) continue;
      const Value original = graph_.value(output);
      if (original.role != Role::internal) continue;  // a result is written to its own region
      ValueId copy;
      if (original.storage == output) {
        copy = graph_.new_value(original.dtype, original.shape);
      } else {
        const ValueId owner = available(original.storage);
        copy = graph_.new_view(owner, original.shape, original.byte_offset);
      }
      clone_[output] = copy;
      output = copy;
    }
    graph_.backward.push_back(std::move(node));
  }

  // A backward value that was computed in place of a forward value moves to that value's copy.
  void follow_owner(ValueId id) {
    if (id == no_value || id >= forward_values_) return;
    Value& value = graph_.value(id);
    if (value.storage == id) return;
    if (value.storage >= forward_values_ || clone_[value.storage] == no_value) return;
    value.storage = clone_[value.storage];
  }

  Graph& graph_;
  Recompute how_;
  ValueId forward_values_;
  std::vector<int> producer_;
  std::vector<ValueId> clone_;
};

}  // namespace

void recompute(Graph& graph, Recompute how) {
  if (how != Recompute::none) Rewriter(graph, how).run();
}

}  // namespace trireme
