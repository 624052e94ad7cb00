// Tests of batch size ramp-up: sizes at the boundaries, step counts, and indivisible settings.
#include "train/schedule/batch_schedule.h"

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

// The number of remaining steps depends only on the consumed samples, not on earlier batch sizes.
TEST(BatchSchedule, StepsThatAreLeft) {
  const BatchSchedule constant(config_of(16, 4), 1);
  EXPECT_EQ(constant.steps(320, 160), 10);
  EXPECT_EQ(constant.steps(320, 168), 9);
  EXPECT_EQ(constant.steps(320, 400), 0);
  const BatchSchedule ramp(config_of(32, 8, {16, 8, 300}), 1);
  for (std::int64_t steps = 0, consumed = 0; steps < 30; ++steps) {
    EXPECT_EQ(steps + ramp.steps(1000, consumed), ramp.steps(1000));
    consumed += ramp.batch_size(consumed);
  }
}

Config with_schedule(const std::string& schedule) {
  Config config = config_of(0, 4);
  config.model.seq_length = 10;
  config.train.batch_size_schedule = schedule;
  return config;
}

// Token thresholds are rounded down to whole samples as upstream; the last step reaches the end.
TEST(BatchSchedule, FollowsASchedule) {
  const BatchSchedule schedule(with_schedule("0:4 85:8, 20s:16"), 1);
  EXPECT_EQ(schedule.batch_size(0), 4);
  EXPECT_EQ(schedule.batch_size(7), 4);
  EXPECT_EQ(schedule.batch_size(8), 8);
  EXPECT_EQ(schedule.batch_size(19), 8);
  EXPECT_EQ(schedule.batch_size(20), 16);
  // 4, 8, 16, 24, 40, 56
  EXPECT_EQ(schedule.steps(24), 4);
  EXPECT_EQ(schedule.steps(25), 5);
  EXPECT_EQ(schedule.steps(40), 5);
  EXPECT_EQ(schedule.steps(40, 16), 2);
  EXPECT_EQ(schedule.samples(3), 16);
  EXPECT_EQ(schedule.samples(6), 56);
  EXPECT_THROW(BatchSchedule(with_schedule("0:4 100:6"), 1), Error);  // 6 / 4
}

TEST(BatchSizes, OfAScheduleInAnyOrder) {
  const Config config = with_schedule("0.1K:8 0:4 1e3:0.016K");
  const auto schedule = batch_size_schedule(config);
  ASSERT_EQ(schedule.size(), 3u);
  EXPECT_EQ(schedule[1].samples, 10);
  EXPECT_EQ(schedule[2].samples, 100);
  EXPECT_EQ(batch_sizes(config, 1), (std::vector<std::int64_t>{4, 8, 16}));
  EXPECT_EQ(global_batch_size(config, 1), 16);
  EXPECT_EQ(evaluation_batch_size(config, 2), 8);
}

TEST(BatchSizes, WhatIsNoScheduleIsRefused) {
  for (const char* wrong :
       {"4", "0:4 5", "0:0", "0:-4", ":4", "0:", "0:4:8", "0:4 5:8", "0:4 0s:8", "inf:4 0:4",
        "nan:4", "0:4 1X:8", "0:4 1KK:8", " , ", "0:4 1e30:8", "0: 4"})
    EXPECT_THROW(batch_size_schedule(with_schedule(wrong)), Error) << wrong;
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
