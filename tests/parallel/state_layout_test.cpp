// Tests of parameter buckets: which rank owns which part, and which passes write them.
#include "parallel/states/state_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "graph/autodiff.h"
#include "graph/ops/ops.h"

namespace trireme {
namespace {

// Three segments of two parameters each; the last one also has the first one's weight (tied).
StageDefinition three_segments() {
  StageDefinition definition;
  const auto build = [] {
    auto g = std::make_unique<Graph>(DType::f32);
    const ValueId x = g->segment_input({5, 6});
    const ParameterSpec weight{"weight", {6, 6}, {6, 6}}, bias{"bias", {6}, {6}};
    const ValueId w = g->parameter(weight);
    const ValueId b = g->parameter(bias);
    g->set_output(ops::linear(*g, x, w, b));
    return g;
  };
  definition.templates.emplace_back();
  definition.templates[0].train = build();
  definition.templates[0].eval = build();
  differentiate(*definition.templates[0].train);
  for (int s = 0; s < 3; ++s) {
    const int weight = s == 2 ? 0 : static_cast<int>(definition.parameters.size());
    for (const char* name : {"weight", "bias"}) {
      if (s == 2 && std::string(name) == "weight") continue;
      const Shape shape = std::string(name) == "weight" ? Shape{6, 6} : Shape{6};
      definition.parameters.push_back({std::to_string(s) + name, {name, shape, shape}});
    }
    definition.segments.push_back(
        {0, s, {weight, static_cast<int>(definition.parameters.size()) - 1}});
  }
  return definition;
}

StateOptions options_of(int zero, int degree, int rank, bool split) {
  StateOptions options;
  options.zero = zero;
  options.degree = degree;
  options.rank = rank;
  options.split_weight_grad = split;
  options.tied = "0weight";
  return options;
}

TEST(StateLayout, RanksTogetherOwnEveryElementOnce) {
  for (const int degree : {1, 2, 3, 5}) {
    std::map<int, std::vector<std::pair<std::int64_t, std::int64_t>>> owned;
    for (int rank = 0; rank < degree; ++rank) {
      StageDefinition definition = three_segments();
      const StateLayout layout(definition, options_of(degree > 1, degree, rank, false));
      layout.lay_out(definition);
      EXPECT_EQ(layout.state_elements() * degree, definition.flat_elements);
      for (const OwnedSlice& slice : layout.owned()) {
        EXPECT_LE(slice.offset + slice.count(), layout.part(slice.bucket));
        // An owned part has the same position in the flat layout as its parameter.
        EXPECT_EQ(layout.part_begin(slice.bucket) + slice.offset,
                  definition.parameters[slice.parameter].offset + slice.begin);
        owned[slice.parameter].push_back({slice.begin, slice.end});
      }
    }
    const StageDefinition definition = three_segments();
    ASSERT_EQ(owned.size(), definition.parameters.size());
    for (auto& [parameter, ranges] : owned) {
      std::sort(ranges.begin(), ranges.end());
      std::int64_t next = 0;
      for (const auto& [begin, end] : ranges) {
        EXPECT_EQ(begin, next);
        next = end;
      }
      EXPECT_EQ(next, definition.parameters[parameter].spec.shape.count());
    }
  }
}

// Two of the four ranks that share the states have the same experts.
TEST(StateLayout, ExpertsAreSharedByTheRanksThatHaveThem) {
  constexpr int expert = 2;  // "1weight"
  std::int64_t owned = 0;
  for (int rank = 0; rank < 4; ++rank) {
    StageDefinition definition = three_segments();
    definition.parameters[expert].spec.of_experts = true;
    StateOptions options = options_of(1, 4, rank, false);
    options.expert_degree = 2;
    options.expert_rank = rank / 2;
    const StateLayout layout(definition, options);
    layout.lay_out(definition);
    std::int64_t flat = 0, states = 0;
    for (int bucket = 0; bucket < layout.buckets(); ++bucket) {
      const bool is_expert = bucket == layout.bucket_of(expert);
      EXPECT_EQ(layout.of_experts(bucket), is_expert);
      EXPECT_EQ(layout.range(bucket).begin, flat);
      EXPECT_EQ(layout.state_begin(bucket), states);
      EXPECT_EQ(layout.range(bucket).elements, layout.part(bucket) * (is_expert ? 2 : 4));
      EXPECT_EQ(layout.part_begin(bucket),
                flat + layout.part(bucket) * (is_expert ? rank / 2 : rank));
      flat += layout.range(bucket).elements;
      states += layout.part(bucket);
    }
    EXPECT_EQ(definition.flat_elements, flat);
    EXPECT_EQ(layout.state_elements(), states);
    for (const OwnedSlice& slice : layout.owned())
      if (slice.parameter == expert) owned += slice.count();
  }
  EXPECT_EQ(owned, 2 * 36);  // two copies
}

TEST(StateLayout, BucketsDoNotDependOnTheDegree) {
  const StageDefinition one = three_segments(), four = three_segments();
  const StateLayout alone(one, options_of(0, 1, 0, true)), shared(four, options_of(3, 4, 2, true));
  ASSERT_EQ(alone.buckets(), shared.buckets());
  for (int p = 0; p < static_cast<int>(one.parameters.size()); ++p)
    EXPECT_EQ(alone.bucket_of(p), shared.bucket_of(p));
}

TEST(StateLayout, WindowsHoldTheBucketsOfASegment) {
  StageDefinition definition = three_segments();
  const StateLayout layout(definition, options_of(3, 2, 0, false));
  layout.lay_out(definition);
  ASSERT_EQ(definition.windows.size(), 3u);
  for (int s = 0; s < 3; ++s) {
    const auto& buckets = layout.buckets_of(s);
    ASSERT_EQ(definition.windows[s].size(), buckets.size());
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      EXPECT_EQ(definition.windows[s][i].begin, layout.range(buckets[i]).begin);
      EXPECT_EQ(definition.windows[s][i].elements, layout.range(buckets[i]).elements);
    }
    for (const int p : definition.segments[s].parameters)
      EXPECT_TRUE(std::count(buckets.begin(), buckets.end(), layout.bucket_of(p)));
  }
}

TEST(StateLayout, ATiedParameterHasABucketOfItsOwnWithTwoWriters) {
  for (const bool split : {false, true}) {
    StageDefinition definition = three_segments();
    const StateLayout layout(definition, options_of(2, 2, 0, split));
    const int tied = layout.bucket_of(0);
    for (int p = 1; p < static_cast<int>(definition.parameters.size()); ++p)
      EXPECT_NE(layout.bucket_of(p), tied);
    EXPECT_EQ(layout.writers(tied), 2);
    // Every gradient is written by exactly the passes that are counted.
    std::map<int, int> writers;
    for (int s = 0; s < 3; ++s) {
      for (const Pass pass : {Pass::backward, Pass::weight_grad}) {
        if (pass == Pass::weight_grad && !split) {
          EXPECT_TRUE(layout.made_by(pass, s).empty());
        }
        for (const int bucket : layout.made_by(pass, s)) ++writers[bucket];
      }
    }
    for (int b = 0; b < layout.buckets(); ++b) EXPECT_EQ(writers[b], layout.writers(b)) << b;
  }
}

}  // namespace
}  // namespace trireme
