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
  fuse(g, DeviceKind::cpu);
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

// A block's MLP with its norm and biases: y = x + down(activation(up(norm(x)))).
class Mlp {
 public:
  explicit Mlp(std::int64_t exact_block = 0, ActivationKind kind = ActivationKind::gelu_tanh,
               double dropout = 0)
      : graph_(std::make_unique<Graph>(DType::f32, exact_block)) {
    Graph& g = *graph_;
    const std::int64_t wide = is_gated(kind) ? 32 : 16;
    const ValueId x = g.segment_input({8, 4});
    const ValueId unit =
        ops::norm(g, x, weight({4}), weight({4}), NormKind::layer_norm, 1e-5, false);
    const ValueId up = ops::linear(g, unit, weight({wide, 4}), weight({wide}));
    const ValueId down = ops::linear(g, ops::activation(g, up, kind), weight({4, 16}), weight({4}));
    const DropoutRule rule{.probability = static_cast<float>(dropout)};
    g.set_output(ops::add(g, x, down, g.batch(BatchInput::sample_ids, DType::i64, {2}), rule, 4));
    differentiate(g);
  }

  Graph& graph() { return *graph_; }

 private:
  ValueId weight(const Shape& shape) {
    const std::string name = "weight" + std::to_string(++weights_);
    return graph_->parameter({name, shape, shape, ParameterSpec::Init::normal, 1, true});
  }

  std::unique_ptr<Graph> graph_;
  int weights_ = 0;
};

const Node& node_of(const std::vector<Node>& nodes, OpKind op) {
  return *std::ranges::find(nodes, op, &Node::op);
}
std::int64_t count_of(const std::vector<Node>& nodes, OpKind op) {
  return std::ranges::count(nodes, op, &Node::op);
}

TEST(Fuse, MovesBiasGradientsIntoTheNodesThatHaveTheirRows) {
  Mlp mlp;
  Graph& g = mlp.graph();
  std::vector<ValueId> gradients;  // of the biases of down and up, in this order
  for (const Node& node : g.backward)
    if (node.op == OpKind::bias_grad) gradients.push_back(node.outputs[0]);
  ASSERT_EQ(gradients.size(), 2u);
  fuse(g, DeviceKind::cpu);
  EXPECT_EQ(count_of(g.backward, OpKind::bias_grad), 0);
  // The gradient of the output is also the one that the norm's gradient is added to.
  EXPECT_EQ(node_of(g.backward, OpKind::norm_grad).outputs[4], gradients[0]);
  EXPECT_EQ(node_of(g.backward, OpKind::norm_grad).outputs[3], no_value);
  EXPECT_EQ(node_of(g.backward, OpKind::activation_grad).outputs[1], gradients[1]);
  plan_segment(g, {});
}

TEST(Fuse, MovesTheBiasGradientOfWhatTheNormReads) {
  Graph g(DType::f32);
  const auto weight = [&](const char* name, const Shape& shape) {
    return g.parameter({name, shape, shape, ParameterSpec::Init::normal, 1, true});
  };
  const ValueId y = ops::linear(g, g.segment_input({8, 4}), weight("w", {4, 4}), weight("b", {4}));
  g.set_output(ops::norm(g, y, weight("n", {4}), no_value, NormKind::rms_norm, 1e-5, false));
  differentiate(g);
  const ValueId gradient = node_of(g.backward, OpKind::bias_grad).outputs[0];
  fuse(g, DeviceKind::cpu);
  EXPECT_EQ(count_of(g.backward, OpKind::bias_grad), 0);
  EXPECT_EQ(node_of(g.backward, OpKind::norm_grad).outputs[3], gradient);
}

TEST(Fuse, LeavesBiasGradientsThatAreSummedByBlocks) {
  Mlp mlp(4);
  fuse(mlp.graph(), DeviceKind::cpu);
  EXPECT_EQ(count_of(mlp.graph().backward, OpKind::bias_grad), 2);
}

TEST(Fuse, LeavesTheBiasGradientBeforeAGate) {
  Mlp mlp(0, ActivationKind::swiglu);
  fuse(mlp.graph(), DeviceKind::cpu);
  EXPECT_EQ(count_of(mlp.graph().backward, OpKind::bias_grad), 1);
  EXPECT_EQ(node_of(mlp.graph().backward, OpKind::activation_grad).outputs[1], no_value);
}

// The gradients of queries, keys and values lie in the registers of GPUs only.
TEST(Fuse, MovesTheBiasGradientBeforeAttentionOnGpus) {
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
    Graph g(DType::bf16);
    const auto weight = [&](const char* name, const Shape& shape) {
      return g.parameter({name, shape, shape, ParameterSpec::Init::normal, 1, true});
    };
    AttentionAttributes attributes{};
    attributes.batch = 2;
    attributes.seq = 4;
    attributes.groups = attributes.queries_per_group = 1;
    attributes.head_dim = 4;
    const ValueId qkv =
        ops::linear(g, g.segment_input({8, 4}), weight("w", {12, 4}), weight("b", {12}));
    g.set_output(ops::attention(g, qkv, no_value, no_value, attributes));
    differentiate(g);
    fuse(g, device);
    const bool apart = device == DeviceKind::cpu;
    EXPECT_EQ(count_of(g.backward, OpKind::bias_grad), apart ? 1 : 0);
    EXPECT_EQ(node_of(g.backward, OpKind::attention_grad).outputs[1] == no_value, apart);
  }
}

TEST(FuseResidual, AddsInTheProductBefore) {
  Mlp mlp;
  Graph& g = mlp.graph();
  const ValueId output = g.output(), input = g.forward.back().inputs[0];
  fuse_residual(g);
  EXPECT_EQ(count_of(g.forward, OpKind::add), 0);
  EXPECT_EQ(g.forward.back().op, OpKind::linear);
  EXPECT_EQ(g.forward.back().inputs[3], input);
  EXPECT_EQ(g.forward.back().outputs[0], output);
  recompute(g, Recompute::full);
  fuse(g, DeviceKind::cpu);
  plan_segment(g, {});
}

// Layers in fp8 and those cut into leaves have kernels that do not add.
TEST(FuseResidual, LeavesLayersInFp8) {
  Mlp mlp;
  mlp.graph().set_fp8({.recipe = Fp8Recipe::tensorwise});
  fuse_residual(mlp.graph());
  EXPECT_EQ(count_of(mlp.graph().forward, OpKind::add), 1);
}

TEST(FuseResidual, LeavesALayerThatIsReadElsewhere) {
  Graph g(DType::f32);
  const ValueId x = g.segment_input({8, 4});
  const ValueId y = ops::linear(
      g, x, g.parameter({"w", {4, 4}, {4, 4}, ParameterSpec::Init::normal, 1, true}), no_value);
  const ValueId z = ops::activation(g, y, ActivationKind::silu);
  for (const auto& [a, b] : {std::pair{z, y}, std::pair{y, z}, std::pair{y, y}}) {
    Graph copy = g;
    copy.set_output(ops::add(copy, a, b, no_value, {}, 1));
    fuse_residual(copy);
    EXPECT_EQ(count_of(copy.forward, OpKind::add), 1);
  }
}

TEST(FuseResidual, LeavesDropout) {
  Mlp mlp(0, ActivationKind::gelu_tanh, 0.1);
  fuse_residual(mlp.graph());
  EXPECT_EQ(count_of(mlp.graph().forward, OpKind::add), 1);
}

}  // namespace
}  // namespace trireme
