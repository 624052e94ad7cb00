// Tests of the assignment of layers to stages, and of parameters to the ranks that share them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "growth.h"
#include "parallel/stages.h"
#include "parallel/states/shards.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(StagePlacement, IsABijectionAndTheVTurns) {
  for (const StagePlacement& place :
       {StagePlacement{4, 1, false}, StagePlacement{3, 4, false}, StagePlacement{4, 2, true}}) {
    std::set<int> seen;
    for (int rank = 0; rank < place.ranks; ++rank) {
      for (int chunk = 0; chunk < place.chunks; ++chunk) {
        const int stage = place.stage(rank, chunk);
        EXPECT_EQ(place.rank_of(stage), rank);
        EXPECT_EQ(place.chunk_of(stage), chunk);
        seen.insert(stage);
      }
    }
    EXPECT_EQ(static_cast<int>(seen.size()), place.stages());
  }
  const StagePlacement v{4, 2, true};
  EXPECT_EQ(v.stage(0, 1), 7);  // the first rank has both ends of the model
  EXPECT_EQ(v.rank_of(3), v.rank_of(4));
}

std::string refusal(std::int64_t layers, const StagePlacement& place,
                    const std::vector<std::int64_t>& counts = {}) {
  try {
    assign_layers(layers, place, counts);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  return "";
}

TEST(Stages, TakeEqualOrGivenNumbersOfLayers) {
  EXPECT_THAT(assign_layers(8, {2, 2, false}),
              ElementsAre(LayerRange{0, 2}, LayerRange{2, 4}, LayerRange{4, 6}, LayerRange{6, 8}));
  EXPECT_THAT(assign_layers(7, {2, 1, false}, {3, 4}),
              ElementsAre(LayerRange{0, 3}, LayerRange{3, 7}));
}

TEST(Stages, RefusalsProposeASplit) {
  EXPECT_THAT(refusal(10, {4, 1, false}), HasSubstr("parallel.stage_layers = [2, 3, 3, 2]"));
  EXPECT_THAT(refusal(10, {4, 1, false}), HasSubstr("such as 1, 2, 5 or 10"));
  EXPECT_THAT(refusal(3, {4, 1, false}), HasSubstr("at most 3 stages"));
  EXPECT_THAT(refusal(8, {2, 2, false}, {4, 4}), HasSubstr("[2, 2, 2, 2]"));
  EXPECT_THAT(refusal(8, {2, 1, false}, {4, 5}), HasSubstr("sum to the 8 layers"));
  EXPECT_THAT(refusal(8, {2, 1, false}, {0, 8}), HasSubstr("at least 1"));
  EXPECT_THAT(refusal(8, {2, 1, false}, {INT64_MAX, INT64_MAX}), HasSubstr("[4, 4]"));
  EXPECT_NE(refusal(0, {1, 1, false}), "");
}

std::vector<ShardParameter> model(int layers) {
  std::vector<ShardParameter> parameters = {{50257 * 64 + 1, 0}};
  for (int layer = 1; layer <= layers; ++layer) {
    for (const std::int64_t n : {64, 64, 64 * 192, 192, 64 * 64, 64, 1, 64 * 256, 256 * 64}) {
      parameters.push_back({n, layer});
    }
  }
  return parameters;
}

TEST(Shards, GiveEveryElementOneOwner) {
  const auto parameters = model(3);
  for (const int degree : {1, 2, 3, 8, 640}) {
    for (const bool keep_units : {false, true}) {
      const ShardPlan plan(parameters,
                           {.degree = degree, .bucket_elements = 40000, .keep_units = keep_units});
      std::vector<std::int64_t> next(parameters.size(), 0);
      std::int64_t total = 0;
      for (int bucket = 0; bucket < static_cast<int>(plan.buckets().size()); ++bucket) {
        const ShardBucket& b = plan.buckets()[bucket];
        EXPECT_EQ(b.elements, b.part * degree);
        EXPECT_EQ(b.part % 256, 0);
        for (int rank = 0; rank < degree; ++rank) {
          for (const ShardSlice& s : plan.owned(bucket, rank)) {
            EXPECT_EQ(s.begin, next[s.parameter]);  // ranks own ascending ranges
            EXPECT_EQ(s.begin % 256, 0);
            EXPECT_LE(s.offset + s.count(), b.part);
            // The position in the bucket, computed in two ways.
            EXPECT_EQ(rank * b.part + s.offset, plan.offset_of(s.parameter) + s.begin);
            EXPECT_EQ(plan.bucket_of(s.parameter), bucket);
            next[s.parameter] = s.end;
            total += s.count();
          }
        }
      }
      std::int64_t expected = 0;
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_EQ(next[i], parameters[i].elements);
        expected += parameters[i].elements;
      }
      EXPECT_EQ(total, expected);
      EXPECT_EQ(plan.elements_per_rank() * degree, plan.total_elements());
    }
  }
}

TEST(Shards, BucketsDoNotDependOnTheDegree) {
  const auto parameters = model(4);
  const ShardPlan one(parameters, {.degree = 1, .bucket_elements = 30000});
  for (const int degree : {2, 5, 64}) {
    const ShardPlan many(parameters, {.degree = degree, .bucket_elements = 30000});
    ASSERT_EQ(one.buckets().size(), many.buckets().size());
    for (std::size_t i = 0; i < one.buckets().size(); ++i) {
      EXPECT_EQ(one.buckets()[i].parameters, many.buckets()[i].parameters);
    }
  }
}

TEST(Shards, ShrinkWithTheDegree) {
  const auto parameters = model(12);
  const auto per_rank = [&](int degree) {
    return static_cast<double>(ShardPlan(parameters, {.degree = degree}).elements_per_rank());
  };
  for (const int degree : {2, 4, 8}) EXPECT_NEAR(per_rank(degree), per_rank(1) / degree, 3000.0);
}

TEST(Shards, UnitsAndLargeParametersHaveBucketsOfTheirOwn) {
  const ShardPlan plan(model(2), {.degree = 2, .bucket_elements = 1 << 20, .keep_units = true});
  ASSERT_EQ(plan.buckets().size(), 3u);
  EXPECT_EQ(plan.buckets()[0].parameters.size(), 1u);
  EXPECT_EQ(plan.buckets()[1].unit, 1);
  EXPECT_EQ(plan.buckets()[2].parameters.size(), 9u);
  EXPECT_TRUE(ShardPlan({}, {}).buckets().empty());
}

TEST(Shards, AreFoundInTimeThatGrowsWithTheLayers) {
  const auto plan_shards = [](int layers) {
    const auto parameters = model(layers);
    const ShardPlan plan(parameters, {.degree = 5120, .keep_units = true});
    std::int64_t slices = 0;
    for (int bucket = 0; bucket < static_cast<int>(plan.buckets().size()); ++bucket) {
      for (const int rank : {0, 17, 5119})
        slices += static_cast<std::int64_t>(plan.owned(bucket, rank).size());
    }
    EXPECT_GT(slices, 0);
  };
  EXPECT_LT(growth_over_8(plan_shards, 125), subquadratic);
}

}  // namespace
}  // namespace trireme
