// Finds and replaces the nodes described in fuse.h.
#include "graph/fuse.h"

#include <span>
#include <utility>

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

}  // namespace

void fuse(Graph& graph) {
  const std::vector<Node> old = std::exchange(graph.backward, {});
  for (std::size_t i = 0; i < old.size();) {
    if (i + 3 <= old.size() && is_classifier({old.data() + i, 3})) {
      graph.backward.push_back(classifier({old.data() + i, 3}));
      i += 3;
    } else {
      graph.backward.push_back(old[i++]);
    }
  }
}

}  // namespace trireme
