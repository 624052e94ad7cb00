// Batch size ramp-up: sizes at the borders, counts of steps, and what does not divide.
#include "train/batch_schedule.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace trireme {
namespace {

Config config_of(std::int64_t global, std::int64_t micro, std::vector<std::int64_t> ramp = {}) {
  Config config;
  config.train.micro_batch_size = micro;
  config.train.global_batch_size = global;
  config.train.rampup_batch_size = std::move(ramp);
  return config;
}

TEST(BatchSchedule, Constant) {
  const BatchSchedule schedule(config_of(32, 4), 2);
  EXPECT_EQ(schedule.batch_size(0), 32);
  EXPECT_EQ(schedule.batch_size(1000000), 32);
  EXPECT_EQ(schedule.micro_batches(0), 4);
  EXPECT_EQ(schedule.steps(100), 3);
  EXPECT_EQ(schedule.samples(3), 96);
}

TEST(BatchSchedule, DefaultIsOneMicroBatchPerRank) {
  Config config = config_of(0, 4);
  config.parallel.tp = 2;
  const BatchSchedule schedule(config, 8);
  EXPECT_EQ(schedule.batch_size(0), 16);
  EXPECT_EQ(schedule.micro_batches(0), 1);
}

// 16, 24, 32 in steps of 8 over 300 samples: two increments, 150 samples each.
TEST(BatchSchedule, RampGrowsAtItsBorders) {
  const BatchSchedule schedule(config_of(32, 8, {16, 8, 300}), 1);
  EXPECT_EQ(schedule.batch_size(0), 16);
  EXPECT_EQ(schedule.batch_size(149), 16);
  EXPECT_EQ(schedule.batch_size(150), 24);
  EXPECT_EQ(schedule.batch_size(299), 24);
  EXPECT_EQ(schedule.batch_size(300), 32);
  EXPECT_EQ(schedule.batch_size(301), 32);
  EXPECT_EQ(schedule.micro_batches(150), 3);
}

TEST(BatchSchedule, StepsFollowTheRamp) {
  const BatchSchedule schedule(config_of(32, 8, {16, 8, 300}), 1);
  std::int64_t consumed = 0;
  std::int64_t steps = 0;
  for (; steps < 40; ++steps) {
    EXPECT_EQ(schedule.samples(steps), consumed);
    consumed += schedule.batch_size(consumed);
  }
  // 10 steps of 16 pass 150; 6 of 24 give 304; then 32 each.
  EXPECT_EQ(schedule.steps(304), 16);
  EXPECT_EQ(schedule.steps(335), 16);
  EXPECT_EQ(schedule.steps(336), 17);
}

TEST(BatchSchedule, SizesThatDoNotDivideAreRefused) {
  EXPECT_THROW(BatchSchedule(config_of(30, 4), 1), Error);
  EXPECT_THROW(BatchSchedule(config_of(32, 4), 3), Error);
  EXPECT_THROW(BatchSchedule(config_of(32, 8, {12, 4, 100}), 1), Error);  // 12 / 8
  EXPECT_THROW(BatchSchedule(config_of(32, 8, {16, 4, 100}), 1), Error);  // 20 / 8
  EXPECT_THROW(BatchSchedule(config_of(32, 8, {8, 16, 100}), 1), Error);  // 8, 24, 40
}

}  // namespace
}  // namespace trireme
