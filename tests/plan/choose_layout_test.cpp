// Tests that the chosen layout fits, and splits the model no more than necessary.
#include "plan/choose_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/layout_plan.h"
#include "runtime/devices.h"

namespace trireme {
namespace {

constexpr std::int64_t GiB = std::int64_t{1} << 30;

Config preset(const std::string& name) {
  Config config =
      parse_config("[run]\ndevice = \"hip\"\n[model]\npreset = \"" + name +
                       "\"\n[train]\niters = 1\nglobal_batch_size = 512\n[optimizer]\nlr = 1e-4\n",
                   "test");
  assume_vocabulary(config);
  return config;
}

TEST(ChooseLayout, IsTheSimplestWhereEverythingFits) {
  const auto choice = choose_layout(preset("gpt3-125m"), {8, 8, 64 * GiB});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->reason, "");
  EXPECT_EQ(choice->config.parallel.tp * choice->config.parallel.pp, 1);
  EXPECT_EQ(choice->config.parallel.recompute, Recompute::none);
  EXPECT_GT(choice->config.train.micro_batch_size, 1);
}

TEST(ChooseLayout, CutsMoreWhereThereIsLessMemory) {
  std::int64_t parts = 0;
  for (const std::int64_t memory : {192, 64, 24}) {
    const auto choice = choose_layout(preset("gpt3-13b"), {64, 8, memory * GiB});
    ASSERT_TRUE(choice) << memory;
    const ParallelConfig& p = choice->config.parallel;
    EXPECT_GE(p.tp * p.pp, parts) << memory;
    parts = p.tp * p.pp;
    EXPECT_LE(static_cast<double>(choice->needed), 0.95 * static_cast<double>(memory * GiB));
    // The plan of the chosen layout agrees.
    std::int64_t most = 0;
    for (const RankPlan& rank : plan_layout(choice->config, 64, target_of(DeviceKind::hip)).ranks)
      most = std::max(most, rank.device_bytes());
    EXPECT_EQ(most, choice->needed);
  }
  EXPECT_GT(parts, 1);
}

// Tensor parallelism stays within a node.
TEST(ChooseLayout, DoesNotCutLayersOverNodes) {
  const auto choice = choose_layout(preset("gpt3-13b"), {64, 2, 24 * GiB});
  ASSERT_TRUE(choice);
  EXPECT_LE(choice->config.parallel.tp, 2);
}

TEST(ChooseLayout, IsNothingWhereNothingFits) {
  EXPECT_FALSE(choose_layout(preset("gpt3-175b"), {8, 8, 64 * GiB}));
}

}  // namespace
}  // namespace trireme
