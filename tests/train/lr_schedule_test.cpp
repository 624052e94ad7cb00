// Tests of learning rates against closed forms and against values computed by hand.
#include "train/schedule/lr_schedule.h"
#include "named.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

constexpr double kMax = 1e-3;
constexpr double kMin = 1e-4;

LrSchedule schedule(const std::string& style, std::int64_t warmup = 10, std::int64_t iters = 110) {
  OptimizerConfig optimizer;
  optimizer.lr = kMax;
  optimizer.min_lr = kMin;
  optimizer.decay_style = named(style);
  optimizer.warmup_iters = warmup;
  TrainConfig train;
  train.iters = iters;
  return make_lr_schedule(optimizer, train, 8);  // 80 samples of warm-up, 880 of decay
}

TEST(LrSchedule, WarmupIsLinearFromItsFirstValue) {
  LrSchedule lr = schedule("linear");
  EXPECT_EQ(lr(0), 0.0);
  EXPECT_DOUBLE_EQ(lr(8), kMax / 10);
  EXPECT_DOUBLE_EQ(lr(40), kMax / 2);
  EXPECT_DOUBLE_EQ(lr(80), kMax);
  lr.init_lr = 2e-4;
  EXPECT_DOUBLE_EQ(lr(0), 2e-4);
  EXPECT_DOUBLE_EQ(lr(40), 6e-4);
}

TEST(LrSchedule, Constant) {
  const LrSchedule lr = schedule("constant");
  EXPECT_DOUBLE_EQ(lr(40), kMax / 2);
  for (const std::int64_t s : {80, 81, 500, 880, 100000}) EXPECT_EQ(lr(s), kMax);
}

TEST(LrSchedule, Linear) {
  const LrSchedule lr = schedule("linear");
  EXPECT_DOUBLE_EQ(lr(480), (kMax + kMin) / 2);
  EXPECT_DOUBLE_EQ(lr(280), kMax - 0.25 * (kMax - kMin));
  EXPECT_DOUBLE_EQ(lr(880), kMin);
  EXPECT_EQ(lr(881), kMin);
}

TEST(LrSchedule, Cosine) {
  const LrSchedule lr = schedule("cosine");
  EXPECT_DOUBLE_EQ(lr(480), (kMax + kMin) / 2);
  EXPECT_DOUBLE_EQ(lr(280), kMin + 0.8535533905932737 * (kMax - kMin));  // (1 + cos 45 deg) / 2
  EXPECT_DOUBLE_EQ(lr(880), kMin);
  EXPECT_EQ(lr(1000), kMin);
}

TEST(LrSchedule, InverseSqrt) {
  const LrSchedule lr = schedule("inverse_sqrt");
  EXPECT_DOUBLE_EQ(lr(320), kMax / 2);  // sqrt(80 / 320)
  EXPECT_DOUBLE_EQ(lr(720), kMax / 3);
  EXPECT_EQ(lr(881), kMin);
  // Without warm-up, one sample is assumed instead, and the rate stays above min_lr.
  const LrSchedule bare = schedule("inverse_sqrt", 0);
  EXPECT_DOUBLE_EQ(bare(0), kMax);
  EXPECT_DOUBLE_EQ(bare(4), kMax / 2);
  EXPECT_EQ(bare(400), kMin);
}

TEST(LrSchedule, WsdWithEveryAnneal) {
  OptimizerConfig optimizer;
  optimizer.lr = 1;
  optimizer.min_lr = 0;
  optimizer.decay_style = DecayStyle::wsd;
  optimizer.warmup_iters = 10;
  optimizer.wsd_decay_iters = 40;
  TrainConfig train;
  train.iters = 100;
  const auto at = [&](const char* style, std::int64_t samples) {
    optimizer.wsd_decay_style = named(style);
    return make_lr_schedule(optimizer, train, 1)(samples);
  };
  for (const char* style : {"exponential", "linear", "cosine", "minus_sqrt"}) {
    EXPECT_DOUBLE_EQ(at(style, 5), 0.5);
    EXPECT_DOUBLE_EQ(at(style, 30), 1.0);
    EXPECT_DOUBLE_EQ(at(style, 60), 1.0);
    EXPECT_NEAR(at(style, 100), 0.0, 1e-15);
    EXPECT_EQ(at(style, 101), 0.0);
  }
  EXPECT_DOUBLE_EQ(at("exponential", 80), 2 * std::sqrt(0.5) - 1);
  EXPECT_DOUBLE_EQ(at("linear", 70), 0.75);
  EXPECT_DOUBLE_EQ(at("cosine", 80), 0.5);
  EXPECT_DOUBLE_EQ(at("minus_sqrt", 70), 0.5);
}

TEST(LrSchedule, LengthsInSamplesAndFractions) {
  OptimizerConfig optimizer;
  optimizer.lr = 1;
  optimizer.decay_style = DecayStyle::linear;
  optimizer.warmup_samples = 100;
  optimizer.decay_samples = 300;
  TrainConfig train;
  train.samples = 1000;
  LrSchedule lr = make_lr_schedule(optimizer, train, 64);
  EXPECT_DOUBLE_EQ(lr(50), 0.5);
  EXPECT_DOUBLE_EQ(lr(200), 0.5);
  EXPECT_EQ(lr(301), 0.0);

  optimizer.warmup_samples = 0;
  optimizer.decay_samples = 0;
  optimizer.warmup_fraction = 0.0105;  // of the run's 1000 samples: not an integer
  lr = make_lr_schedule(optimizer, train, 64);
  EXPECT_DOUBLE_EQ(lr.warmup_samples, 10.5);
  EXPECT_DOUBLE_EQ(lr(10), 10 / 10.5);
  EXPECT_LT(lr(11), 1.0);
  EXPECT_DOUBLE_EQ(lr(11), 1 - 0.5 / 989.5);
}

TEST(LrSchedule, CountsTokensWhereTheyAreGiven) {
  OptimizerConfig optimizer;
  optimizer.lr = 1;
  optimizer.min_lr = 0.2;
  optimizer.decay_style = DecayStyle::linear;
  optimizer.warmup_tokens = 100;
  optimizer.decay_tokens = 300;
  TrainConfig train;
  train.iters = 1000;
  LrSchedule lr = make_lr_schedule(optimizer, train, 64);
  for (const std::int64_t samples : {0, 5, 100'000}) {
    EXPECT_DOUBLE_EQ(lr(samples, 50), 0.5);
    EXPECT_DOUBLE_EQ(lr(samples, 100), 1);
    EXPECT_DOUBLE_EQ(lr(samples, 200), 0.6);
    EXPECT_DOUBLE_EQ(lr(samples, 301), 0.2);
  }

  // With a warm-up in steps, the decay continues from the tokens that the warm-up consumed.
  optimizer.warmup_tokens = 0;
  optimizer.warmup_iters = 4;
  lr = make_lr_schedule(optimizer, train, 10, [](std::int64_t samples) { return 2 * samples; });
  EXPECT_DOUBLE_EQ(lr(20, 30), 0.5);
  EXPECT_DOUBLE_EQ(lr(40, 80), 1);
  EXPECT_DOUBLE_EQ(lr(50, 190), 0.6);
  EXPECT_DOUBLE_EQ(lr(50, 301), 0.2);
}

TEST(LrSchedule, DecayShorterThanTheRun) {
  OptimizerConfig optimizer;
  optimizer.lr = 1;
  optimizer.decay_style = DecayStyle::linear;
  optimizer.decay_iters = 50;
  TrainConfig train;
  train.iters = 100;
  const LrSchedule lr = make_lr_schedule(optimizer, train, 4);
  EXPECT_DOUBLE_EQ(lr(100), 0.5);
  EXPECT_EQ(lr(201), 0.0);
}

}  // namespace
}  // namespace trireme
