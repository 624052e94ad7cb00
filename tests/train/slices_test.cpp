// Tests of what ranks save: every element of every tensor exactly once in any sharding, no padding.
#include "train/checkpoints/slices.h"

#include <gtest/gtest.h>

#include <map>

#include "model/transformer.h"

namespace trireme {
namespace {

ModelConfig tiny(const std::string& family) {
  ModelConfig model;
  model.family = family;
  model.num_layers = 2;
  model.hidden_size = 24;
  model.num_heads = 4;
  model.num_kv_heads = 4;
  model.seq_length = 8;
  model.max_positions = 8;
  model.vocab_size = 37;
  resolve(model);
  return model;
}

struct PlacedParts {
  Shape shape;
  std::vector<Region> regions;
};

// Returns what the `degree` ranks that share the states of each of `tp` tensor-parallel ranks save.
std::map<std::string, PlacedParts> saved_by_all(const ModelConfig& model, int tp, int degree) {
  std::map<std::string, PlacedParts> all;
  for (int t = 0; t < tp; ++t) {
    for (int d = 0; d < degree; ++d) {
      BuildOptions build;
      build.tensor.size = tp;
      build.tensor.rank = t;
      StageDefinition definition = build_model(model, build);
      StateOptions options;
      options.zero = degree > 1 ? 3 : 0;
      options.degree = degree;
      options.rank = d;
      const StateLayout layout(definition, options);
      for (const OwnedSlice& slice : layout.owned()) {
        const Parameter& parameter = definition.parameters[slice.parameter];
        if (!parameter.spec.split && t > 0) continue;
        PlacedParts& parts = all[parameter.name];
        parts.shape = parameter.spec.saved_shape;
        for (const PlacedRegion& placed : regions_of(parameter.spec, slice.begin, slice.end)) {
          EXPECT_LE(placed.offset + placed.region.count(), slice.count());
          parts.regions.push_back(placed.region);
        }
      }
    }
  }
  return all;
}

TEST(Slices, HoldEveryElementOnce) {
  for (const std::string family : {"gpt", "llama"}) {
    const ModelConfig model = tiny(family);
    const std::size_t tensors = saved_by_all(model, 1, 1).size();
    for (const int tp : {1, 2, 4}) {
      for (const int degree : {1, 2, 3, 8}) {
        SCOPED_TRACE(family + ", tp " + std::to_string(tp) + ", shared by " +
                     std::to_string(degree));
        const auto all = saved_by_all(model, tp, degree);
        EXPECT_EQ(all.size(), tensors);
        for (const auto& [name, parts] : all)
          EXPECT_EQ(tiling_fault(parts.shape, parts.regions), "") << name;
      }
    }
  }
}

// A range that begins and ends inside pieces that are not contiguous in the whole tensor.
TEST(Slices, FollowPiecesThatLieApart) {
  ParameterSpec spec;
  spec.shape = {6, 4};
  spec.saved_shape = {20, 4};
  spec.pieces = {{0, 2, 3}, {3, 12, 3}};
  const auto regions = regions_of(spec, 5, 17);
  ASSERT_EQ(regions.size(), 2u);
  // Rows 2 to 4, starting at element 5.
  EXPECT_EQ(regions[0].region.text(), "[2:5, 0:4](5:12)");
  EXPECT_EQ(regions[0].offset, 0);
  EXPECT_EQ(regions[1].region.text(), "[12:15, 0:4](0:5)");
  EXPECT_EQ(regions[1].offset, 7);
}

TEST(Slices, LeavePaddingOut) {
  ParameterSpec spec;
  spec.shape = {8, 3};
  spec.saved_shape = {13, 3};
  spec.pieces = {{0, 8, 8}};  // rows 8 to 15, of which three are padding
  const auto regions = regions_of(spec, 0, 24);
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].region.text(), "[8:13, 0:3]");
  EXPECT_TRUE(regions_of(spec, 15, 24).empty());
}

}  // namespace
}  // namespace trireme
