// Prints graphs as text and DOT.
#include "graph/dump.h"

#include <fmt/format.h>

#include <map>

#include "graph/op.h"

namespace trireme {
namespace {

const char* batch_names[] = {"tokens",     "targets",       "loss_weights",    "positions",
                             "sample_ids", "first_visible", "first_in_window", "lengths",
                             "segments",   "first_rows",    "predicted_rows",  "order_labels",
                             "new_tokens"};
const char* constant_names[] = {"rope_cos",       "rope_sin",     "rope_cos_local",
                                "rope_sin_local", "query_factor", "no_rope_query_factor",
                                "zeros"};
const char* cache_names[] = {"key_cache", "value_cache", "state_cache", "input_cache"};
const char* result_names[] = {"token_loss", "logits", "order_loss", "order_logits"};

std::string name_of_value(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  switch (value.role) {
    case Role::parameter:
      return graph.parameters()[value.index].name;
    case Role::gradient:
      return "grad(" + graph.parameters()[value.index].name + ")";
    case Role::constant:
      return constant_names[value.index];
    case Role::batch:
      return batch_names[value.index];
    case Role::input:
      return "input";
    case Role::output:
      return "output";
    case Role::output_grad:
      return "grad(output)";
    case Role::input_grad:
      return fmt::format("grad(input)%{}", id);
    case Role::result:
      return result_names[value.index];
    case Role::cache:
      return cache_names[value.index];
    case Role::internal:
      break;
  }
  return fmt::format("%{}", id);
}

// Formats e.g. " scratch+128"; empty for a value stored elsewhere.
std::string text_of(const Placement& placement) {
  const char* arena = placement.arena == Arena::saved        ? "saved"
                      : placement.arena == Arena::late_saved ? "late"
                      : placement.arena == Arena::scratch    ? "scratch"
                                                             : nullptr;
  return arena ? fmt::format(" {}+{}", arena, placement.offset) : "";
}

std::string place_of_value(const Graph& graph, const SegmentPlan& plan, ValueId id) {
  std::string text = fmt::format("{} {}{}", name_of(graph.value(id).dtype),
                                 graph.value(id).shape.text(), text_of(plan.placements[id]));
  if (graph.is_view(id))
    text += fmt::format(" in {}", name_of_value(graph, graph.value(id).storage));
  return text;
}

template <class Ids>
std::string list(const Graph& graph, const Ids& ids) {
  std::string text;
  for (const ValueId id : ids) {
    if (id != no_value) text += (text.empty() ? "" : ", ") + name_of_value(graph, id);
  }
  return text;
}

struct NamedList {
  const char* name;
  const std::vector<Node>* nodes;
};

std::array<NamedList, 3> lists_of(const SegmentPlan& plan) {
  return {{{"forward", &plan.forward},
           {"backward", &plan.backward},
           {"weight gradients", &plan.weight_grad}}};
}

}  // namespace

std::string dump_text(const Graph& graph, const SegmentPlan& plan, const std::string& title) {
  std::string text = fmt::format("segment {}: saved {} bytes, scratch {}\n", title,
                                 plan.saved_bytes, plan.scratch_bytes);
  for (const auto& [name, nodes] : lists_of(plan)) {
    if (nodes->empty()) continue;
    text += fmt::format("  {}\n", name);
    for (const Node& node : *nodes) {
      const Cost cost = cost_of(graph, node);
      text += fmt::format("    {} = {}({})", list(graph, node.outputs), definition(node.op).name,
                          list(graph, node.inputs));
      if (cost.flops > 0) text += fmt::format("  {:.3g} flops", cost.flops);
      text += '\n';
      for (const ValueId id : node.outputs) {
        if (id != no_value)
          text += fmt::format("        {}: {}\n", name_of_value(graph, id),
                              place_of_value(graph, plan, id));
      }
      if (node.workspace >= 0) {
        const Workspace& workspace = plan.workspaces[node.workspace];
        text += fmt::format("        workspace: {} bytes{}\n", workspace.bytes,
                            text_of(workspace.placement));
      }
    }
  }
  return text;
}

std::string dump_dot(const Graph& graph, const SegmentPlan& plan, const std::string& title) {
  std::string text =
      fmt::format("digraph \"{}\" {{\n  node [shape=box, fontname=sans, fontsize=10];\n", title);
  std::map<ValueId, std::string> producer;
  int number = 0;
  for (const auto& [name, nodes] : lists_of(plan)) {
    if (nodes->empty()) continue;
    text += fmt::format("  subgraph \"cluster_{}\" {{\n    label=\"{}\";\n", name, name);
    std::string edges;
    for (const Node& node : *nodes) {
      const std::string id = fmt::format("n{}", number++);
      text += fmt::format("    {} [label=\"{}\"];\n", id, definition(node.op).name);
      for (const ValueId input : node.inputs) {
        if (input == no_value) continue;
        const auto from = producer.find(input);
        const std::string label =
            fmt::format("{} {}", name_of_value(graph, input), graph.value(input).shape.text());
        if (from != producer.end()) {
          edges += fmt::format("  {} -> {} [label=\"{}\", fontsize=8];\n", from->second, id, label);
        } else {
          edges += fmt::format("  \"{}\" [shape=ellipse];\n  \"{}\" -> {};\n", label, label, id);
        }
      }
      for (const ValueId output : node.outputs) {
        if (output != no_value) producer[output] = id;
      }
    }
    text += "  }\n" + edges;
  }
  return text + "}\n";
}

}  // namespace trireme
