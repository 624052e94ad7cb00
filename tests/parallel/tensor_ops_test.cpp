// Tests of collective ops on ranks (as threads): the forward result of each, and that its gradient
// is its dual.
#include <gtest/gtest.h>

#include "base/random.h"
#include "comm/local.h"
#include "graph/autodiff.h"
#include "graph/ops/ops.h"
#include "parallel/tensor_group.h"
#include "runtime/stage.h"

namespace trireme {
namespace {

constexpr std::int64_t rows = 8, columns = 3;

template <class T>
std::vector<T> random_values(int stream, std::int64_t count) {
  std::vector<T> values(count);
  for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<T>(normal(3, stream, i));
  return values;
}

// Returns the sum of random_values(first_stream + rank) over all ranks, in rank order.
template <class T>
std::vector<T> sum_over(int ranks, int first_stream, std::int64_t count) {
  std::vector<T> sum = random_values<T>(first_stream, count);
  for (int r = 1; r < ranks; ++r) {
    const std::vector<T> more = random_values<T>(first_stream + r, count);
    for (std::int64_t i = 0; i < count; ++i) sum[i] += more[i];
  }
  return sum;
}

template <class T>
std::vector<T> part(const std::vector<T>& whole, int index, int of) {
  const std::size_t count = whole.size() / of;
  return {whole.begin() + index * count, whole.begin() + (index + 1) * count};
}

// Returns the random_values of all ranks, concatenated.
template <class T>
std::vector<T> gathered(int ranks, int first_stream, std::int64_t count) {
  std::vector<T> all;
  for (int r = 0; r < ranks; ++r) {
    const std::vector<T> one = random_values<T>(first_stream + r, count);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

template <class T>
struct Result {
  std::vector<T> y, dx;
};

// A stage of one segment: the op under test between multiplications by the identity, since in a
// model it occurs between GEMMs; at_border: directly after the segment's input.
template <class T>
Result<T> run(RankGroup& group, const std::function<ValueId(Graph&, ValueId)>& op,
              std::int64_t x_rows, Recompute how, bool at_border = false) {
  const ParameterSpec identity{"identity", {columns, columns}};
  const auto build = [&] {
    auto g = std::make_unique<Graph>(sizeof(T) == 8 ? DType::f64 : DType::f32);
    ValueId x = g->segment_input({x_rows, columns});
    const ValueId weight = g->parameter(identity);
    if (!at_border) x = ops::linear(*g, x, weight, no_value);
    g->set_output(ops::linear(*g, op(*g, x), weight, no_value));
    return g;
  };
  StageDefinition definition;
  definition.compute = sizeof(T) == 8 ? DType::f64 : DType::f32;
  definition.templates.emplace_back();
  SegmentTemplate& segment = definition.templates.back();
  segment.train = build();
  segment.eval = build();
  differentiate(*segment.train);
  recompute(*segment.train, how);
  const std::int64_t y_count = segment.eval->value(segment.eval->output()).shape.count();
  definition.segments.push_back({0, 0, {0}});
  definition.parameters.push_back({identity.name, identity});
  lay_out_parameters(definition);
  StageOptions options;
  options.poison = true;
  Stage stage(std::move(definition), options);
  RankGroups groups;
  groups[GroupKind::tensor] = &group;
  stage.allocate(groups);
  T* weight = static_cast<T*>(stage.parameter(0));
  for (std::int64_t i = 0; i < columns * columns; ++i) weight[i] = i % (columns + 1) == 0 ? 1 : 0;

  const std::vector<T> x = random_values<T>(group.rank(), x_rows * columns);
  const std::vector<T> dy = random_values<T>(100 + group.rank(), y_count);
  std::copy(x.begin(), x.end(), static_cast<T*>(stage.stage_input(0)));
  constexpr StepBlock step;
  stage.run({Pass::forward, 0, &step});
  const T* y = static_cast<const T*>(stage.stage_output(0));
  Result<T> result;
  result.y.assign(y, y + y_count);
  std::copy(dy.begin(), dy.end(), static_cast<T*>(stage.output_grad(0)));
  stage.run({Pass::backward, 0, &step, true});
  const T* dx = static_cast<const T*>(stage.input_grad(0));
  result.dx.assign(dx, dx + x.size());
  return result;
}

template <class T>
class CollectiveOp : public testing::Test {
 protected:
  // Runs check(rank, ranks, result) on every rank.
  static void on_ranks(const std::function<ValueId(Graph&, ValueId, GraphGroup)>& op,
                       std::int64_t x_rows,
                       const std::function<void(int, int, const Result<T>&)>& check) {
    for (const int ranks : {2, 4}) {
      for (const Recompute how : {Recompute::none, Recompute::full}) {
        run_local_ranks(ranks, {.timeout_s = 60}, [&](Transport& transport) {
          TensorGroup group(transport.world());
          const auto with_ranks = [&](Graph& g, ValueId x) {
            return op(g, x, {GroupKind::tensor, ranks});
          };
          check(group.rank(), ranks, run<T>(group, with_ranks, x_rows, how));
        });
      }
    }
  }
};

using Types = testing::Types<double, float>;
TYPED_TEST_SUITE(CollectiveOp, Types);

TYPED_TEST(CollectiveOp, AllReduceSumsAndItsGradientPasses) {
  for (const bool in_place : {false, true}) {
    this->on_ranks([&](Graph& g, ValueId x,
                       GraphGroup ranks) { return ops::all_reduce(g, x, ranks, in_place); },
                   rows,
                   [](int rank, int ranks, const Result<TypeParam>& result) {
                     EXPECT_EQ(result.y, sum_over<TypeParam>(ranks, 0, rows * columns));
                     EXPECT_EQ(result.dx, random_values<TypeParam>(100 + rank, rows * columns));
                   });
  }
}

TYPED_TEST(CollectiveOp, GradAllReducePassesAndItsGradientSums) {
  this->on_ranks(ops::grad_all_reduce, rows,
                 [](int rank, int ranks, const Result<TypeParam>& result) {
                   EXPECT_EQ(result.y, random_values<TypeParam>(rank, rows * columns));
                   EXPECT_EQ(result.dx, sum_over<TypeParam>(ranks, 100, rows * columns));
                 });
}

TYPED_TEST(CollectiveOp, AllGatherGathersRowsAndItsGradientScattersSums) {
  this->on_ranks(
      ops::all_gather, rows / 2, [](int rank, int ranks, const Result<TypeParam>& result) {
        const std::int64_t count = rows / 2 * columns;
        EXPECT_EQ(result.y, gathered<TypeParam>(ranks, 0, count));
        EXPECT_EQ(result.dx, part(sum_over<TypeParam>(ranks, 100, count * ranks), rank, ranks));
      });
}

TYPED_TEST(CollectiveOp, AllToAllExchangesPartsAndSoDoesItsGradient) {
  this->on_ranks(ops::all_to_all, rows, [](int rank, int ranks, const Result<TypeParam>& result) {
    const std::int64_t share = rows * columns / ranks;
    std::vector<TypeParam> y, dx;
    for (int from = 0; from < ranks; ++from) {
      const auto x = part(random_values<TypeParam>(from, rows * columns), rank, ranks);
      const auto dy = part(random_values<TypeParam>(100 + from, rows * columns), rank, ranks);
      ASSERT_EQ(static_cast<std::int64_t>(x.size()), share);
      y.insert(y.end(), x.begin(), x.end());
      dx.insert(dx.end(), dy.begin(), dy.end());
    }
    EXPECT_EQ(result.y, y);
    EXPECT_EQ(result.dx, dx);
  });
}

TYPED_TEST(CollectiveOp, ReduceScatterScattersSumsAndItsGradientGathers) {
  this->on_ranks(
      ops::reduce_scatter, rows, [](int rank, int ranks, const Result<TypeParam>& result) {
        EXPECT_EQ(result.y, part(sum_over<TypeParam>(ranks, 0, rows * columns), rank, ranks));
        EXPECT_EQ(result.dx, gathered<TypeParam>(ranks, 100, rows * columns / ranks));
      });
}

TEST(CollectiveOps, GradAllReduceKeepsWhatEntersTheSegment) {
  run_local_ranks(2, {.timeout_s = 60}, [&](Transport& transport) {
    TensorGroup group(transport.world());
    const auto op = [](Graph& g, ValueId x) {
      return ops::grad_all_reduce(g, x, {GroupKind::tensor, 2});
    };
    const Result<double> result = run<double>(group, op, rows, Recompute::none, true);
    EXPECT_EQ(result.y, random_values<double>(group.rank(), rows * columns));
    EXPECT_EQ(result.dx, sum_over<double>(2, 100, rows * columns));
  });
}

TEST(CollectiveOps, VanishWithOneRank) {
  Graph g(DType::f32);
  const ValueId x = g.segment_input({rows, columns});
  EXPECT_EQ(ops::grad_all_reduce(g, x, {GroupKind::tensor, 1}), x);
  EXPECT_EQ(ops::all_reduce(g, x, {GroupKind::tensor, 1}, true), x);
  EXPECT_EQ(ops::all_gather(g, x, {GroupKind::tensor, 1}), x);
  EXPECT_EQ(ops::reduce_scatter(g, x, {GroupKind::tensor, 1}), x);
  EXPECT_TRUE(g.forward.empty());
}

TEST(CollectiveOps, RefuseWhatCannotWork) {
  Graph g(DType::f32);
  const ValueId x = g.segment_input({rows, columns});
  EXPECT_THROW(ops::reduce_scatter(g, x, {GroupKind::tensor, 3}), Error);  // 8 rows
  EXPECT_THROW(ops::all_reduce(g, x, {GroupKind::tensor, 2}, true),
               Error);  // would overwrite the segment's input
}

// The value is read under its old name after grad_all_reduce, as a residual connection does.
TEST(CollectiveOps, ValidatorKnowsThatIdentityWritesNothing) {
  Graph g(DType::f32);
  const ValueId x = ops::activation(g, g.segment_input({rows, columns}), ActivationKind::silu);
  const ValueId inside =
      ops::activation(g, ops::grad_all_reduce(g, x, {GroupKind::tensor, 2}), ActivationKind::silu);
  g.set_output(ops::add(g, x, inside, no_value, {}, 1));
  differentiate(g);
  EXPECT_NO_THROW(plan_segment(g, {}));
}

TEST(CollectiveOps, ValidatorSeesReadsOfWhatAllReduceOverwrote) {
  Graph g(DType::f32);
  const ValueId x = ops::activation(g, g.segment_input({rows, columns}), ActivationKind::silu);
  const ValueId sum = ops::all_reduce(g, x, {GroupKind::tensor, 2}, true);
  g.set_output(ops::add(g, x, sum, no_value, {}, 1));
  differentiate(g);
  EXPECT_THROW(plan_segment(g, {}), Error);
}

}  // namespace
}  // namespace trireme
