// Tests of loss spikes: detection, the step a run rolls back to, and saving and loading the record.
#include "train/watch/loss_spikes.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "named.h"
#include "refusal.h"

namespace trireme {
namespace {

using testing::HasSubstr;

TrainConfig config_with(const std::string& policy) {
  TrainConfig config;
  config.spike_policy = named(policy);
  config.spike_window = 8;
  config.spike_sigma = 6;
  config.spike_back_steps = 10;
  return config;
}

// The window contains 3.00 to 3.07: a median of 3.04 and a median deviation of 0.02.
LossSpikes after_eight(const std::string& policy) {
  LossSpikes spikes(config_with(policy));
  for (int i = 0; i < 8; ++i) spikes.add(3 + 0.01 * i);
  return spikes;
}

TEST(LossSpikes, StandFarAboveTheMedianOfAWholeWindow) {
  LossSpikes spikes(config_with("skip"));
  for (int i = 0; i < 7; ++i) spikes.add(3 + 0.01 * i);
  EXPECT_FALSE(spikes.is_spike(100)) << "the window is not full";
  spikes.add(3.07);
  EXPECT_FALSE(spikes.is_spike(3.04 + 5.9 * 1.4826 * 0.02));
  EXPECT_TRUE(spikes.is_spike(3.04 + 6.1 * 1.4826 * 0.02));
  EXPECT_FALSE(spikes.is_spike(0)) << "a fall is no spike";
  EXPECT_THAT(spikes.text(4), HasSubstr("the loss 4 is 32.4 standard deviations above the median "
                                        "of the last 8 (3.04)"));
}

TEST(LossSpikes, OfEqualLossesNeedAThousandthOfTheMedianEach) {
  LossSpikes spikes(config_with("skip"));
  for (int i = 0; i < 8; ++i) spikes.add(2);
  EXPECT_FALSE(spikes.is_spike(2 * 1.0059));
  EXPECT_TRUE(spikes.is_spike(2 * 1.0061));
}

TEST(LossSpikes, AreWhatIsNotFiniteAtAnyTime) {
  EXPECT_TRUE(LossSpikes(config_with("skip")).is_spike(NAN));
  EXPECT_TRUE(LossSpikes(config_with("back")).is_spike(INFINITY));
  EXPECT_FALSE(LossSpikes(config_with("none")).is_spike(NAN));
  EXPECT_FALSE(after_eight("none").is_spike(100));
}

TEST(LossSpikes, TooManyInARowEndTheRun) {
  LossSpikes spikes = after_eight("skip");
  for (int i = 0; i < 19; ++i) spikes.add_spike(9);
  spikes.add(3);
  for (int i = 0; i < 19; ++i) spikes.add_spike(9);
  EXPECT_THAT(
      [&] { spikes.add_spike(9); },
      testing::ThrowsMessage<Error>(HasSubstr("and 19 before it in the steps right before")));
}

// The non-finite losses start at the first step, as with an initial loss scale that is too large.
TEST(LossSpikes, TooManyThatAreNotFiniteNeedNoWindow) {
  LossSpikes spikes(config_with("skip"));
  for (int i = 0; i < 19; ++i) spikes.add_spike(NAN);
  EXPECT_THAT([&] { spikes.add_spike(NAN); },
              testing::ThrowsMessage<Error>(HasSubstr("a fixed optimizer.loss_scale")));
}

TEST(LossSpikes, GoBackToTheNewestSaveThatIsOldEnough) {
  LossSpikes spikes = after_eight("back");
  EXPECT_EQ(spikes.rollback_step(100), std::nullopt);
  for (const int step : {8, 16, 24, 32, 40}) spikes.saved(step);
  EXPECT_EQ(spikes.rollback_step(41), 24);
  EXPECT_EQ(spikes.rollback_step(42), 32);
  EXPECT_EQ(spikes.rollback_step(50), 40);
  // 32 and 40 belong to the abandoned branch.
  spikes.rolled_back(spikes, 24);
  EXPECT_EQ(spikes.rollback_step(50), 24);
  EXPECT_EQ(after_eight("skip").rollback_step(50), std::nullopt);
}

TEST(LossSpikes, ARecordGivesTheSameAnswers) {
  LossSpikes spikes = after_eight("back");
  spikes.add(0.1 + 0.2);
  spikes.saved(8);
  LossSpikes other(config_with("back"));
  other.restore(spikes.json());
  EXPECT_EQ(other.json(), spikes.json());
  EXPECT_EQ(other.rollback_step(20), 8);
  EXPECT_EQ(other.text(9), spikes.text(9));
  EXPECT_THAT(refusal_of([&] { other.restore("{}"); }), HasSubstr("record of loss spikes"));
}

}  // namespace
}  // namespace trireme
