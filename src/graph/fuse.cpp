// Finds and replaces the nodes described in fuse.h.
#include "graph/fuse.h"

#include <algorithm>
#include <span>
#include <utility>

#include "graph/ops/fp8_linear.h"

namespace trireme {
namespace {

// Whether the three nodes are the loss of the same logits and its gradient.
bool is_classifier(std::span<const Node> nodes) {
  const Node &stats = nodes[0], &loss = nodes[1], &grad = nodes[2];
  if (stats.op != OpKind::softmax_stats || loss.op != OpKind::token_loss ||
      grad.op != OpKind::cross_entropy_grad)
    return false;
  for (int i = 0; i < 3; ++i)
    if (loss.inputs[i] != stats.outputs[i]) return false;
  return grad.inputs[0] == stats.inputs[0] && grad.inputs[1] == loss.outputs[1];
}

Node classifier(std::span<const Node> nodes) {
  const Node &stats = nodes[0], &loss = nodes[1], &grad = nodes[2];
  Node node{OpKind::classifier, Phase::input_grad, grad.attributes, {}, {}};
  node.inputs.fill(no_value);
  node.outputs.fill(no_value);
  node.inputs[0] = stats.inputs[0];  // logits
  node.inputs[1] = stats.inputs[1];  // targets
  node.inputs[2] = grad.inputs[3];   // loss weights
  node.outputs[0] = loss.outputs[0];
  node.outputs[1] = grad.outputs[0];
  return node;
}

void fuse_classifiers(std::vector<Node>& backward) {
  const std::vector<Node> old = std::exchange(backward, {});
  for (std::size_t i = 0; i < old.size();) {
    if (i + 3 <= old.size() && is_classifier({old.data() + i, 3})) {
      backward.push_back(classifier({old.data() + i, 3}));
      i += 3;
    } else {
      backward.push_back(old[i++]);
    }
  }
}

// Where a node can put the sum over the rows of `rows`: an output that is still free.
ValueId* place_of_sum(Node& node, ValueId rows, DeviceKind device) {
  ValueId* place = nullptr;
  if (node.op == OpKind::activation_grad && node.outputs[0] == rows &&
      !is_gated(node.as<ActivationAttributes>().rule.kind))
    place = &node.outputs[1];
  if (node.op == OpKind::attention_grad && node.outputs[0] == rows && device != DeviceKind::cpu)
    place = &node.outputs[1];
  if (node.op == OpKind::norm_grad && node.outputs[0] == rows) place = &node.outputs[3];
  if (node.op == OpKind::norm_grad && node.inputs[5] == rows) place = &node.outputs[4];
  return place && *place == no_value ? place : nullptr;
}

bool is_of_leaves(const Node& bias_grad) {
  const auto* const linear = std::get_if<LinearAttributes>(&bias_grad.attributes);
  return linear && linear->leaves.count > 0;
}

// Returns whether a node took over the sum.
bool move_sum(std::vector<Node>& backward, const Node& bias_grad, DeviceKind device) {
  if (bias_grad.op != OpKind::bias_grad || is_of_leaves(bias_grad)) return false;
  for (Node& node : backward) {
    ValueId* const place = place_of_sum(node, bias_grad.inputs[0], device);
    if (place) *place = bias_grad.outputs[0];
    if (place) return true;
  }
  return false;
}

void fuse_bias_gradients(std::vector<Node>& backward, DeviceKind device) {
  std::vector<bool> moved;
  for (const Node& node : backward) moved.push_back(move_sum(backward, node, device));
  const std::vector<Node> old = std::exchange(backward, {});
  for (std::size_t i = 0; i < old.size(); ++i)
    if (!moved[i]) backward.push_back(old[i]);
}

bool is_read(const Graph& graph, ValueId value) {
  const auto reads = [&](const Node& node) {
    return std::ranges::find(node.inputs, value) != node.inputs.end();
  };
  return std::ranges::any_of(graph.forward, reads) || std::ranges::any_of(graph.backward, reads);
}

}  // namespace

void fuse(Graph& graph, DeviceKind device) {
  fuse_classifiers(graph.backward);
  if (graph.exact_block() == 0) fuse_bias_gradients(graph.backward, device);
}

void fuse_residual(Graph& graph) {
  std::vector<Node>& nodes = graph.forward;
  if (nodes.size() < 2) return;
  Node& linear = nodes[nodes.size() - 2];
  const Node add = nodes.back();
  if (add.op != OpKind::add || linear.op != OpKind::linear) return;
  if (add.outputs[0] != graph.output() || add.inputs[1] != linear.outputs[0]) return;
  if (add.inputs[0] == no_value || add.inputs[0] == add.inputs[1]) return;
  if (add.as<AddAttributes>().dropout.probability > 0) return;
  if (linear.as<LinearAttributes>().leaves.count > 0 || ops::rounds_to_fp8(graph, linear)) return;
  nodes.pop_back();
  if (is_read(graph, linear.outputs[0])) {
    nodes.push_back(add);
    return;
  }
  linear.inputs[3] = add.inputs[0];
  linear.outputs[0] = add.outputs[0];
}

}  // namespace trireme
