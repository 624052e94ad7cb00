// Tests of the planner's safeguards: the validator reports what the planner must never do, and
// invalid graphs are rejected when they are built.
#include "graph/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "graph/autodiff.h"
#include "graph/dump.h"
#include "graph/ops/ops.h"
#include "graph/recompute.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

// Builds x -> norm -> linear -> gelu -> linear -> + x.
std::unique_ptr<Graph> small_block() {
  auto graph = std::make_unique<Graph>(DType::f32);
  Graph& g = *graph;
  const ValueId x = g.segment_input({8, 4});
  const ValueId norm_weight =
      g.parameter({"norm.weight", {4}, {4}, ParameterSpec::Init::ones, 0, false});
  const ValueId up =
      g.parameter({"up.weight", {16, 4}, {16, 4}, ParameterSpec::Init::normal, 1, true});
  const ValueId down =
      g.parameter({"down.weight", {4, 16}, {4, 16}, ParameterSpec::Init::normal, 1, true});
  const ValueId n = ops::norm(g, x, norm_weight, no_value, NormKind::rms_norm, 1e-5);
  const ValueId h = ops::activation(g, ops::linear(g, n, up, no_value), ActivationKind::gelu_tanh);
  g.set_output(ops::add(g, x, ops::linear(g, h, down, no_value), no_value, {}, 8));
  differentiate(g);
  return graph;
}

// Returns the internal owners that the plan's nodes touch, for one arena.
std::vector<ValueId> placed_in(const Graph& graph, const SegmentPlan& plan, Arena arena) {
  std::vector<ValueId> ids;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (plan.placements[id].arena == arena && !graph.is_view(id)) ids.push_back(id);
  }
  return ids;
}

TEST(Planner, ReusesScratchButNeverSavedMemory) {
  const auto graph = small_block();
  const SegmentPlan tight = plan_segment(*graph, {});
  PlanOptions separate;
  separate.reuse = false;
  const SegmentPlan loose = plan_segment(*graph, separate);
  EXPECT_LT(tight.scratch_bytes, loose.scratch_bytes);
  EXPECT_EQ(tight.saved_bytes, loose.saved_bytes);
  std::int64_t saved = 0;
  for (const ValueId id : placed_in(*graph, tight, Arena::saved))
    saved += align_up(graph->value(id).bytes());
  EXPECT_EQ(saved, tight.saved_bytes);
}

TEST(Planner, RecomputationSavesLessAndLess) {
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (const Recompute how : {Recompute::none, Recompute::selective, Recompute::full}) {
    const auto graph = small_block();
    recompute(*graph, how);
    const std::int64_t saved = plan_segment(*graph, {}).saved_bytes;
    EXPECT_LT(saved, before);
    before = saved;
  }
  EXPECT_EQ(before, 0);
}

TEST(Planner, SplitsWeightGradientsOff) {
  const auto graph = small_block();
  PlanOptions split;
  split.split_weight_grad = true;
  const SegmentPlan plan = plan_segment(*graph, split);
  EXPECT_EQ(plan.weight_grad.size(), 2u);
  for (const Node& node : plan.backward) EXPECT_NE(node.phase, Phase::weight_grad);
}

TEST(Validator, HearsOverlap) {
  const auto graph = small_block();
  PlanOptions separate;
  separate.reuse = false;
  SegmentPlan plan = plan_segment(*graph, separate);
  const std::vector<ValueId> ids = placed_in(*graph, plan, Arena::saved);
  ASSERT_GE(ids.size(), 2u);
  plan.placements[ids[0]].offset = plan.placements[ids[1]].offset;
  EXPECT_THROW(validate_plan(*graph, plan), Error);
}

TEST(Validator, HearsScratchThatALaterPhaseReads) {
  const auto graph = small_block();
  SegmentPlan plan = plan_segment(*graph, {});
  const std::vector<ValueId> saved = placed_in(*graph, plan, Arena::saved);
  ASSERT_FALSE(saved.empty());
  plan.placements[saved[0]] = {Arena::scratch, plan.scratch_bytes};
  EXPECT_THROW(validate_plan(*graph, plan), Error);
}

TEST(Validator, HearsEveryPairThatLivesTogether) {
  const auto graph = small_block();
  PlanOptions separate;
  separate.reuse = false;
  const SegmentPlan good = plan_segment(*graph, separate);
  // Moving a value onto one that is written before it and read after it is always detected.
  int heard = 0;
  const std::vector<ValueId> ids = placed_in(*graph, good, Arena::saved);
  for (const ValueId a : ids) {
    for (const ValueId b : ids) {
      if (a == b) continue;
      SegmentPlan bad = good;
      bad.placements[a].offset = good.placements[b].offset;
      try {
        validate_plan(*graph, bad);
      } catch (const Error&) {
        ++heard;
      }
    }
  }
  EXPECT_EQ(heard, static_cast<int>(ids.size() * (ids.size() - 1)));
}

// The size and the lifetime of each owner of memory: from its first to its last use in the whole
// replay.
struct Life {
  Arena arena;
  std::int64_t begin, end;
  int first, last;
};

std::map<ValueId, Life> lives_of(const Graph& graph, const SegmentPlan& plan) {
  std::map<ValueId, Life> lives;
  int time = 0;
  for (const auto* list : {&plan.forward, &plan.backward, &plan.weight_grad}) {
    for (const Node& node : *list) {
      std::vector<ValueId> operands(node.inputs.begin(), node.inputs.end());
      operands.insert(operands.end(), node.outputs.begin(), node.outputs.end());
      operands.push_back(node.workspace);
      for (const ValueId id : operands) {
        if (id == no_value) continue;
        const ValueId owner = graph.value(id).storage;
        const Placement& at = plan.placements[owner];
        if (at.arena == Arena::elsewhere) continue;
        const std::int64_t end = at.offset + graph.value(owner).bytes();
        lives.try_emplace(owner, Life{at.arena, at.offset, end, time, time}).first->second.last =
            time;
      }
      ++time;
    }
  }
  return lives;
}

bool clash(const std::map<ValueId, Life>& lives, ValueId moved) {
  const Life& a = lives.at(moved);
  return std::any_of(lives.begin(), lives.end(), [&](const auto& other) {
    const Life& b = other.second;
    return other.first != moved && a.arena == b.arena && a.begin < b.end && b.begin < a.end &&
           a.first <= b.last && b.first <= a.last;
  });
}

// Every mutation that moves a value onto another live one is detected, and no other mutation.
TEST(Validator, HearsEveryPlacementThatMovesOntoALivingValue) {
  int heard = 0, harmless = 0;
  for (const Recompute how : {Recompute::none, Recompute::selective, Recompute::full}) {
    for (const bool split : {false, true}) {
      const auto graph = small_block();
      recompute(*graph, how);
      PlanOptions options;
      options.split_weight_grad = split;
      const SegmentPlan good = plan_segment(*graph, options);
      for (const auto& [owner, life] : lives_of(*graph, good)) {
        for (const std::int64_t by : {-64, 64}) {
          if (life.begin + by < 0) continue;
          SegmentPlan bad = good;
          for (ValueId id = 0; id < graph->value_count(); ++id) {
            if (graph->value(id).storage == owner) bad.placements[id].offset += by;
          }
          bool thrown = false;
          try {
            validate_plan(*graph, bad);
          } catch (const Error&) {
            thrown = true;
          }
          EXPECT_EQ(thrown, clash(lives_of(*graph, bad), owner)) << "%" << owner << " by " << by;
          ++(thrown ? heard : harmless);
        }
      }
    }
  }
  EXPECT_GT(heard, 50);
  EXPECT_GT(harmless, 0);
}

// An in-place result of another shape makes the whole value unreadable too.
TEST(Validator, HearsReadsOfAWholeWhoseSliceWasOverwritten) {
  Graph g(DType::f32);
  const ValueId x = g.segment_input({8, 4});
  const ValueId whole = ops::activation(g, x, ActivationKind::gelu_tanh);
  const ValueId part = ops::slice(g, whole, 2, 3);
  const ValueId tables = g.constant(ConstantInput::rope_cos, DType::f32, {3, 1});
  const ValueId sines = g.constant(ConstantInput::rope_sin, DType::f32, {3, 1});
  const ValueId positions = g.batch(BatchInput::positions, DType::i32, {3});
  // Rotates the slice in place.
  ops::rope(g, part, tables, sines, positions, {3, 1, 0, 2, 2, +1});
  g.set_output(ops::add(g, no_value, whole, no_value, {}, 8));
  PlanOptions options;
  options.training = false;
  EXPECT_THAT([&] { plan_segment(g, options); }, ThrowsMessage<Error>(HasSubstr("overwritten")));
}

TEST(Validator, HearsReadsBeforeWrites) {
  const auto graph = small_block();
  SegmentPlan plan = plan_segment(*graph, {});
  std::swap(plan.forward[0], plan.forward[1]);
  EXPECT_THAT([&] { validate_plan(*graph, plan); },
              ThrowsMessage<Error>(HasSubstr("before it is written")));
}

TEST(Validator, HearsReadsOfOverwrittenLogits) {
  Graph g(DType::f32);
  const ValueId x = g.segment_input({8, 4});
  const ValueId weight =
      g.parameter({"head.weight", {16, 4}, {16, 4}, ParameterSpec::Init::normal, 1, true});
  const ValueId logits = ops::linear(g, x, weight, no_value);
  const ValueId loss = ops::cross_entropy(g, logits, g.batch(BatchInput::targets, DType::i32, {8}),
                                          g.batch(BatchInput::loss_weights, DType::f32, {8}), 13);
  g.set_result(loss, ResultOutput::token_loss);
  differentiate(g);
  plan_segment(g, {});
  // This node reads the logits after their gradient has overwritten them.
  g.emit_grad(OpKind::add, Phase::input_grad, AddAttributes{{}, 8}, {logits, logits});
  EXPECT_THAT([&] { plan_segment(g, {}); }, ThrowsMessage<Error>(HasSubstr("overwritten")));
}

TEST(Graph, MissingGradientRulesAreFoundWhenItIsBuilt) {
  Graph g(DType::f32);
  const ValueId x = g.segment_input({2, 12});
  AttentionAttributes a{};
  a.batch = 2;
  a.seq = 1;
  a.groups = 1;
  a.queries_per_group = 1;
  a.head_dim = 4;
  a.capacity = 8;
  const ValueId lengths = g.batch(BatchInput::lengths, DType::i32, {2});
  const Shape cache = {2, 8, 1, 4};
  g.set_output(ops::cached_attention(g, x, g.cache(CacheBuffer::key, cache),
                                     g.cache(CacheBuffer::value, cache), lengths, a));
  EXPECT_THAT([&] { differentiate(g); }, ThrowsMessage<Error>(HasSubstr("cached_attention")));
}

// Rows without a consumer would keep whatever is in memory, and a consumer of the whole value would
// be overwritten.
TEST(Graph, GradientsByRowsCoverEachRowOnce) {
  using Parts = std::vector<std::pair<std::int64_t, std::int64_t>>;  // the first row and how many
  enum class Whole { unused, used_first, used_last };
  const auto build = [](const Parts& parts, Whole whole) {
    Graph g(DType::f32);
    const ValueId x = ops::scale(g, g.segment_input({8, 4}), 2);
    ValueId sum = no_value;
    const auto add_parts = [&](ValueId of, const Parts& rows) {
      for (const auto& [first, count] : rows) {
        const ValueId part = ops::scale(g, ops::slice(g, of, first, count), 2);
        sum = sum == no_value ? part : ops::add(g, sum, part, no_value, {}, 4);
      }
    };
    if (whole == Whole::used_first) add_parts(ops::scale(g, x, 3), {{0, 4}, {4, 4}});
    add_parts(x, parts);
    if (whole == Whole::used_last) add_parts(ops::scale(g, x, 3), {{0, 4}, {4, 4}});
    g.set_output(sum);
    differentiate(g);
  };
  build({{0, 4}, {4, 4}}, Whole::unused);
  EXPECT_THAT(
      [&] {
        build({{0, 4}}, Whole::unused);
      },
      ThrowsMessage<Error>(HasSubstr("cover only 4 of 8 rows")));
  EXPECT_THAT(
      [&] {
        build({{0, 4}, {2, 4}}, Whole::unused);
      },
      ThrowsMessage<Error>(HasSubstr("[2, 6) do not follow")));
  for (const Whole whole : {Whole::used_first, Whole::used_last}) {
    EXPECT_THAT(
        [&] {
          build({{0, 4}, {4, 4}}, whole);
        },
        ThrowsMessage<Error>(HasSubstr("scale reads the same value")));
  }
}

TEST(Graph, ShapeErrorsBeginWithTheOpAndShowShapes) {
  Graph g(DType::f32);
  const ValueId x = g.segment_input({2, 12});
  const ValueId weight = g.parameter({"w", {5, 11}, {5, 11}, ParameterSpec::Init::normal, 1, true});
  EXPECT_THAT([&] { ops::linear(g, x, weight, no_value); },
              ThrowsMessage<Error>(
                  testing::AllOf(testing::StartsWith("linear: "), HasSubstr("[2, 12], [5, 11]"))));
}

TEST(Graph, DumpsShowPlacesAndEdges) {
  const auto graph = small_block();
  const SegmentPlan plan = plan_segment(*graph, {});
  EXPECT_THAT(dump_text(*graph, plan, "block"), HasSubstr("output = add(input, "));
  EXPECT_THAT(dump_text(*graph, plan, "block"), HasSubstr("saved+0"));
  EXPECT_THAT(dump_dot(*graph, plan, "block"), HasSubstr("label=\"linear_weight_grad\""));
}

}  // namespace
}  // namespace trireme
