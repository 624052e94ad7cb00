// Tests of which nodes are fused.
#include "graph/fuse.h"

#include <gmock/gmock.h>

#include "graph/autodiff.h"
#include "graph/ops/ops.h"
#include "graph/planner.h"
#include "graph/recompute.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

// Builds a head with 8 rows and a vocabulary of 13, split over `ranks` ranks.
std::unique_ptr<Graph> head(Recompute how, int ranks) {
  auto graph = std::make_unique<Graph>(DType::f32);
  Graph& g = *graph;
  const ValueId x = g.segment_input({8, 4});
  const ValueId weight =
      g.parameter({"head.weight", {16, 4}, {16, 4}, ParameterSpec::Init::normal, 1, true});
  const ValueId logits = ops::linear(g, x, weight, no_value);
  const ValueId loss = ops::cross_entropy(g, logits, g.batch(BatchInput::targets, DType::i32, {8}),
                                          g.batch(BatchInput::loss_weights, DType::f32, {8}), 13, 0,
                                          {GroupKind::tensor, ranks});
  g.set_result(loss, ResultOutput::token_loss);
  differentiate(g);
  recompute(g, how);
  fuse(g);
  return graph;
}

std::vector<OpKind> backward_of(const Graph& graph) {
  std::vector<OpKind> ops;
  for (const Node& node : graph.backward) ops.push_back(node.op);
  return ops;
}

TEST(Fuse, MakesAClassifierOfLossAndGradient) {
  const auto graph = head(Recompute::full, 1);
  EXPECT_THAT(backward_of(*graph),
              ElementsAre(OpKind::linear, OpKind::classifier, OpKind::linear_input_grad,
                          OpKind::linear_weight_grad));
  plan_segment(*graph, {.forward_in_backward = true});  // validates which nodes read which values
}

TEST(Fuse, LeavesALossThatRanksShare) {
  EXPECT_THAT(backward_of(*head(Recompute::full, 2)),
              ElementsAre(OpKind::linear, OpKind::softmax_stats, OpKind::softmax_merge,
                          OpKind::token_loss, OpKind::cross_entropy_grad, OpKind::linear_input_grad,
                          OpKind::linear_weight_grad));
}

TEST(Fuse, LeavesALossOfTheForwardPass) {
  EXPECT_THAT(backward_of(*head(Recompute::none, 1)),
              ElementsAre(OpKind::cross_entropy_grad, OpKind::linear_input_grad,
                          OpKind::linear_weight_grad));
}

}  // namespace
}  // namespace trireme
