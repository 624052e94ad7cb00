// Tests of slow-rank warnings: which ranks are warned about, and how often.
#include "train/watch/slow_ranks.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

const std::vector<int> one_stage(4, 0);
const std::vector<double> even = {1.0, 1.02, 0.98, 1.0}, third_slow = {1.0, 1.02, 1.6, 1.0};

TEST(SlowRanks, AreToldOnceWhereTwoIntervalsSaySo) {
  SlowRanks ranks(0);
  EXPECT_FALSE(ranks.judge(third_slow, one_stage, 1.7));
  const std::optional<SlowRank> slow = ranks.judge(third_slow, one_stage, 1.7);
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->rank, 2);
  EXPECT_EQ(slow->median, 1.0);
  EXPECT_EQ(to_text(*slow, "node7"),
            "rank 2 (node7) is slow: its own work takes 1.6 s per step, 1.60 times the median of "
            "the ranks with the same work (1 s), which wait for it");
  EXPECT_FALSE(ranks.judge(third_slow, one_stage, 1.7));
  // A rank is reported again only after it was not slow in between.
  EXPECT_FALSE(ranks.judge(even, one_stage, 1.1));
  EXPECT_FALSE(ranks.judge(third_slow, one_stage, 1.7));
  EXPECT_TRUE(ranks.judge(third_slow, one_stage, 1.7));
}

// Short intervals are evaluated together: a momentary delay of a rank is not reported.
TEST(SlowRanks, AreJudgedOverTimeAndNotOverSteps) {
  SlowRanks ranks(30);
  const std::vector<double> slow = {0.01, 0.01, 0.05, 0.01}, all = {0.01, 0.01, 0.01, 0.01};
  for (int second = 0; second < 100; ++second)
    EXPECT_FALSE(ranks.judge(second % 30 < 3 ? slow : all, one_stage, 0.05, 20)) << second;
  SlowRanks always(30);
  int told = 0, first = 0;
  for (int second = 1; second <= 100; ++second) {
    if (!always.judge(slow, one_stage, 0.05, 20)) continue;
    if (++told == 1) first = second;
  }
  EXPECT_EQ(told, 1);
  EXPECT_EQ(first, 60);
}

TEST(SlowRanks, AreNotThoseThatWereDisturbedOnce) {
  SlowRanks ranks(0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(ranks.judge(third_slow, one_stage, 1.7));
    EXPECT_FALSE(ranks.judge(even, one_stage, 1.1));
  }
}

TEST(SlowRanks, AreComparedWithinTheirStage) {
  SlowRanks ranks(0);
  const std::vector<double> seconds = {1.0, 1.0, 3.0, 3.1};  // the last stage has the head
  const std::vector<int> stages = {0, 0, 1, 1};
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(ranks.judge(seconds, stages, 3.5));
  const std::vector<double> slow = {1.0, 1.5, 3.0, 3.1};
  EXPECT_FALSE(ranks.judge(slow, stages, 3.5));
  EXPECT_EQ(ranks.judge(slow, stages, 3.5)->rank, 1);
}

TEST(SlowRanks, MakeAStepVisiblyLonger) {
  SlowRanks ranks(0);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(ranks.judge(third_slow, one_stage, 10));
  const std::vector<double> of_short_steps = {0.002, 0.002, 0.009, 0.002};
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(ranks.judge(of_short_steps, one_stage, 0.01));
}

TEST(SlowRanks, OfTwoTheSlowerOneIsTold) {
  SlowRanks ranks(0);
  const std::vector<double> seconds = {2.0, 1.0};
  const std::vector<int> stages = {0, 0};
  ranks.judge(seconds, stages, 2);
  EXPECT_EQ(ranks.judge(seconds, stages, 2)->rank, 0);
}

TEST(SlowRanks, AreCountedWhereThereAreSeveral) {
  SlowRanks ranks(0);
  const std::vector<double> seconds = {1, 1, 1.5, 2, 1};
  const std::vector<int> stages(5, 0);
  ranks.judge(seconds, stages, 2);
  const std::optional<SlowRank> slow = ranks.judge(seconds, stages, 2);
  EXPECT_EQ(slow->rank, 3);
  EXPECT_EQ(slow->others, 1);
}

}  // namespace
}  // namespace trireme
