// Ops are counted by kind along each list of nodes; layouts whose lists have another number of
// some kind are not compared there.
#include "compare/graph_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "graph/op.h"
#include "train/engine/pass_hashes.h"

namespace trireme {
namespace {

// Ops that only pass values between ranks, or that put them into another order.
bool is_movement(OpKind op) {
  using enum OpKind;
  constexpr OpKind moves[] = {grad_all_reduce, all_gather, local_rows, reorder,
                              slice,           gather,     gather_grad};
  return std::ranges::find(moves, op) != std::end(moves);
}

bool is_sum_over_ranks(OpKind op) {
  return op == OpKind::all_reduce || op == OpKind::reduce_scatter;
}

// Whether a sum over ranks after the op equals one before it.
bool is_additive(OpKind op) {
  return op == OpKind::add || op == OpKind::scale;
}

// The name under which an op of this kind appears on a single rank.
std::string_view name_on_one_rank(OpKind op) {
  using enum OpKind;
  OpKind named = op;
  if (op == context_attention || op == ring_attention) named = attention;
  if (op == context_attention_grad || op == ring_attention_grad) named = attention_grad;
  if (op == classifier) named = token_loss;
  return definition(named).name;
}

ValueId first_output(const Node& node) {
  const auto first = std::ranges::find_if(node.outputs, [](ValueId id) { return id != no_value; });
  return first == node.outputs.end() ? no_value : *first;
}

std::string ranks_text(GroupKind kind) {
  switch (kind) {
    case GroupKind::tensor:
      return "the tensor-parallel ranks";
    case GroupKind::context:
      return "the context-parallel ranks";
    case GroupKind::expert:
      return "the expert-parallel ranks";
    case GroupKind::count:
      break;
  }
  return "";
}

}  // namespace

GraphPlaces::GraphPlaces(const Graph& graph)
    : graph_(graph),
      is_summand_(static_cast<std::size_t>(graph.value_count())),
      keys_(is_summand_.size()),
      maker_(is_summand_.size(), no_value) {
  mark_summands(graph.backward);
  mark_summands(graph.forward);
  add(graph.forward, true);
  add(graph.backward, false);
}

void GraphPlaces::mark_summands(const std::vector<Node>& nodes) {
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    const bool passes_on =
        is_additive(node->op) && node->outputs[0] != no_value && is_summand_[node->outputs[0]];
    if (!is_sum_over_ranks(node->op) && !passes_on) continue;
    for (const ValueId input : node->inputs)
      if (input != no_value) is_summand_[input] = true;
  }
}

void GraphPlaces::add(const std::vector<Node>& nodes, bool is_forward) {
  std::map<std::string_view, int> counts, seen;
  for (const Node& node : nodes) ++counts[name_on_one_rank(node.op)];
  for (const Node& node : nodes) {
    if (is_movement(node.op) || has_room_to_spare(node.op)) continue;
    NodePlaces& places = places_[first_output(node)];
    if (is_sum_over_ranks(node.op)) {
      stand_for_summand(node, places);
    } else {
      const std::string_view name = name_on_one_rank(node.op);
      describe(node, is_forward, places);
      name_outputs(node, fmt::format("{} {} {} of {}", is_forward ? "forward" : "backward", name,
                                     seen[name]++, counts[name]));
    }
    for (int i = 0; i < Node::max_outputs; ++i) {
      const ValueId id = node.outputs[i];
      if (id != no_value && !is_summand_[id] && !keys_[id].empty())
        places.outputs.push_back({i, keys_[id]});
    }
  }
}

void GraphPlaces::describe(const Node& node, bool is_forward, NodePlaces& places) const {
  places.place.op = name_on_one_rank(node.op);
  places.place.is_head = graph_.input() != no_value && graph_.output() == no_value;
  places.place.is_forward = is_forward || node.op == OpKind::token_loss;
  for (const ValueId input : node.inputs) {
    if (input == no_value || graph_.value(input).role != Role::parameter) continue;
    places.parameter = graph_.value(input).index;
    return;
  }
}

void GraphPlaces::name_outputs(const Node& node, const std::string& name) {
  for (int i = 0; i < Node::max_outputs; ++i) {
    if (node.outputs[i] == no_value) continue;
    maker_[node.outputs[i]] = first_output(node);
    keys_[node.outputs[i]] = fmt::format("{}, {}", name, i);
  }
}

void GraphPlaces::stand_for_summand(const Node& sum, NodePlaces& places) {
  const ValueId summand = sum.inputs[0], result = sum.outputs[0];
  keys_[result] = keys_[summand];
  maker_[result] = maker_[summand];
  if (const auto made = places_.find(maker_[summand]); made != places_.end()) {
    places.place = made->second.place;
    places.parameter = made->second.parameter;
  }
  places.place.summed = ranks_text(sum.as<CollectiveAttributes>().group.kind);
}

const GraphPlaces::NodePlaces* GraphPlaces::of(const Node& node) const {
  const auto found = places_.find(first_output(node));
  return found == places_.end() ? nullptr : &found->second;
}

}  // namespace trireme
