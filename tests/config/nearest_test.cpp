// Tests of edit distance and of choosing the nearest name.
#include "config/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace trireme {
namespace {

TEST(EditDistance, KnownDistances) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("iters", "itres"), 1);  // swapping neighbors counts as one edit
  EXPECT_EQ(edit_distance("lr", "min_lr"), 4);
}

TEST(NearestName, PicksTheNearestOrNone) {
  const std::vector<std::string> names{"num_layers", "num_heads", "hidden_size", "lr"};
  EXPECT_EQ(nearest_name("num_layer", names), "num_layers");
  EXPECT_EQ(nearest_name("num-heads", names), "num_heads");
  EXPECT_EQ(nearest_name("HiddenSize", names), "hidden_size");
  EXPECT_EQ(nearest_name("hidden", names), "hidden_size");  // a common prefix
  EXPECT_EQ(nearest_name("activation", names), "");
  EXPECT_EQ(nearest_name(std::string(1000, 'x'), names), "");
  EXPECT_EQ(nearest_name("x", {}), "");
  EXPECT_EQ(nearest_name("type", std::vector<std::string>{"tp", "zero"}), "");
  EXPECT_EQ(nearest_name("lrr", std::vector<std::string>{"lr"}), "lr");
}

}  // namespace
}  // namespace trireme
