// Tests of dynamic loss scaling: growth, hysteresis, the minimum, and a checkpoint in between.
#include "optim/loss_scale.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace trireme {
namespace {

OptimizerConfig small() {
  OptimizerConfig optimizer;
  optimizer.initial_loss_scale = 16;
  optimizer.loss_scale_window = 3;
  optimizer.hysteresis = 2;
  return optimizer;
}

void repeat(LossScale& scale, int times, bool overflow) {
  for (int i = 0; i < times; ++i) scale.update(overflow);
}

TEST(LossScale, DoublesAfterAWindowWithoutOverflow) {
  LossScale scale(small(), Precision::fp16);
  repeat(scale, 2, false);
  EXPECT_EQ(scale.scale(), 16);
  scale.update(false);
  EXPECT_EQ(scale.scale(), 32);
  repeat(scale, 3, false);
  EXPECT_EQ(scale.scale(), 64);
}

TEST(LossScale, AnOverflowRestartsTheWindow) {
  LossScale scale(small(), Precision::fp16);
  repeat(scale, 2, false);
  scale.update(true);
  repeat(scale, 2, false);
  EXPECT_EQ(scale.scale(), 16);
  scale.update(false);
  EXPECT_EQ(scale.scale(), 32);
}

TEST(LossScale, HysteresisForgivesThenEveryOverflowHalves) {
  LossScale scale(small(), Precision::fp16);
  scale.update(true);
  EXPECT_EQ(scale.scale(), 16);
  scale.update(true);
  EXPECT_EQ(scale.scale(), 8);
  repeat(scale, 2, false);  // too few good steps do not restore the hysteresis
  scale.update(true);
  EXPECT_EQ(scale.scale(), 4);
  scale.update(true);
  EXPECT_EQ(scale.scale(), 2);
}

TEST(LossScale, IsStuckWhereTheSmallestScaleOverflowsOnAndOn) {
  LossScale scale(small(), Precision::fp16);
  repeat(scale, 5, true);  // one tolerated, four halvings
  ASSERT_EQ(scale.scale(), 1);
  repeat(scale, LossScale::patience - 1, true);
  EXPECT_FALSE(scale.is_stuck());
  scale.update(false);
  repeat(scale, LossScale::patience - 1, true);
  EXPECT_FALSE(scale.is_stuck());
  scale.update(true);
  EXPECT_TRUE(scale.is_stuck());
}

TEST(LossScale, GrowthMakesTheHysteresisWhole) {
  LossScale scale(small(), Precision::fp16);
  repeat(scale, 3, true);
  EXPECT_EQ(scale.scale(), 4);
  repeat(scale, 3, false);
  EXPECT_EQ(scale.scale(), 8);
  scale.update(true);
  EXPECT_EQ(scale.scale(), 8);
  scale.update(true);
  EXPECT_EQ(scale.scale(), 4);
}

TEST(LossScale, StopsAtItsFloorAndCeiling) {
  LossScale scale(small(), Precision::fp16);
  repeat(scale, 100, true);
  EXPECT_EQ(scale.scale(), 1);
  repeat(scale, 3000, false);
  EXPECT_LT(scale.scale(), static_cast<double>(std::numeric_limits<float>::max()));
}

TEST(LossScale, FixedForOtherPrecisionsOrWhenGiven) {
  OptimizerConfig optimizer = small();
  LossScale bf16(optimizer, Precision::bf16);
  optimizer.loss_scale = 128;
  LossScale fixed(optimizer, Precision::fp16);
  repeat(bf16, 10, true);
  repeat(fixed, 10, true);
  EXPECT_EQ(bf16.scale(), 1);
  EXPECT_EQ(fixed.scale(), 128);
  EXPECT_FALSE(fixed.is_dynamic());
}

TEST(LossScale, ContinuesFromItsState) {
  LossScale first(small(), Precision::fp16);
  const bool outcomes[] = {false, true, false, false, true, true, false, false, false, false, true};
  for (int cut = 0; cut < 11; ++cut) {
    LossScale resumed(small(), Precision::fp16);
    resumed.restore(first.state());
    LossScale whole = first;
    for (int i = cut; i < 11; ++i) {
      resumed.update(outcomes[i]);
      whole.update(outcomes[i]);
    }
    EXPECT_EQ(resumed.state(), whole.state());
    first.update(outcomes[cut]);
  }
}

TEST(LossScale, RefusesAnImpossibleState) {
  LossScale scale(small(), Precision::fp16);
  EXPECT_THROW(scale.restore({-1, 0, 1}), Error);
  EXPECT_THROW(scale.restore({std::numeric_limits<double>::infinity(), 0, 1}), Error);
  EXPECT_THROW(scale.restore({16, -5, 1}), Error);
}

}  // namespace
}  // namespace trireme
