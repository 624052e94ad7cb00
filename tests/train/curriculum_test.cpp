// Tests of DeepSpeed's sequence length schedules, truncated micro-batches, and changing lengths.
#include "train/schedule/curriculum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "named.h"
#include "train/engine/engine.h"

namespace trireme {
namespace {

Config config_of(const std::string& schedule, std::int64_t min, std::int64_t full,
                 std::int64_t iters, std::int64_t step) {
  Config config;
  config.model.seq_length = full;
  config.curriculum = {named(schedule), min, iters, step, 2};
  return config;
}

// Values of CurriculumScheduler.get_difficulty(step + 1) of DeepSpeed 0.14, computed by hand.
TEST(Curriculum, GrowsLinearly) {
  const Curriculum c(config_of("fixed_linear", 64, 1024, 1000, 8));
  EXPECT_EQ(c.length(0), 64);
  EXPECT_EQ(c.length(7), 64);  // 8/1000 of 960 is 7.68
  EXPECT_EQ(c.length(8), 72);  // 9/1000: 8.64
  EXPECT_EQ(c.length(499), 544);
  EXPECT_EQ(c.length(998), 1016);
  EXPECT_EQ(c.length(999), 1024);
  EXPECT_EQ(c.length(1'000'000'000), 1024);
}

TEST(Curriculum, GrowsWithTheRoot) {
  const Curriculum c(config_of("fixed_root", 64, 1024, 1000, 8));
  EXPECT_EQ(c.length(0), 88);  // sqrt(1/1000) of 960 is 30.4: 94 in steps of 8
  EXPECT_EQ(c.length(249), 544);
  EXPECT_EQ(c.length(999), 1024);
}

// The schedule's last step rounds down to a multiple; the steps after it use the exact length.
TEST(Curriculum, ReachesALengthThatIsNoMultiple) {
  const Curriculum c(config_of("fixed_linear", 8, 100, 10, 8));
  EXPECT_EQ(c.length(9), 96);
  EXPECT_EQ(c.length(10), 100);
  EXPECT_EQ(c.lengths().back(), 100);
}

TEST(Curriculum, LengthsAreThoseThatAreListedAndNeverFall) {
  for (const char* schedule : {"fixed_linear", "fixed_root", "none"}) {
    const Curriculum c(config_of(schedule, 16, 100, 37, 12 - 8));
    const auto lengths = c.lengths();
    EXPECT_TRUE(std::is_sorted(lengths.begin(), lengths.end()));
    std::int64_t before = 0;
    for (std::int64_t s = 0; s < 60; ++s) {
      EXPECT_TRUE(std::binary_search(lengths.begin(), lengths.end(), c.length(s))) << c.length(s);
      EXPECT_GE(c.length(s), before);
      before = c.length(s);
    }
    EXPECT_EQ(before, 100);
  }
}

TEST(Curriculum, CutsEverySequence) {
  Batch batch(3, 5);
  std::iota(batch.tokens.begin(), batch.tokens.end(), 0);
  std::iota(batch.loss_weights.begin(), batch.loss_weights.end(), 0.f);
  cut(batch, 2);
  EXPECT_EQ(batch.tokens, (std::vector<std::int32_t>{0, 1, 5, 6, 10, 11}));
  EXPECT_EQ(batch.loss_weights, (std::vector<float>{0, 1, 5, 6, 10, 11}));
  EXPECT_EQ(batch.lengths, (std::vector<std::int32_t>{2, 2, 2}));
  EXPECT_EQ(batch.seq_length, 2);
  cut(batch, 7);
  EXPECT_EQ(batch.seq_length, 2);
}

// --- an engine whose sequence length changes

Config engine_config(const std::string& family, std::int64_t seq, bool curriculum) {
  Config config;
  ModelConfig& m = config.model;
  m.family = family;
  m.num_layers = 2;
  m.hidden_size = 32;
  m.num_heads = 4;
  m.seq_length = seq;
  m.max_positions = 24;
  m.vocab_size = 50;
  m.hidden_dropout = 0.1;
  resolve(m);
  config.run.precision = Precision::fp32;
  config.train.micro_batch_size = 2;
  if (curriculum) config.curriculum = {CurriculumSchedule::fixed_linear, 8, 10, 8, 2};
  return config;
}

class LengthChanges : public testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<Engine> engine(std::int64_t seq, bool curriculum) {
    const Config config = engine_config(GetParam(), seq, curriculum);
    BuildOptions build;
    build.batch = 2;
    StageOptions stage;
    stage.poison = true;
    auto made = std::make_unique<Engine>(config, build, stage);
    made->allocate();
    made->initialize();
    return made;
  }
  static StepResult step(Engine& engine, std::uint64_t number) {
    Batch batch(2, engine.length());
    batch.sample_ids = {4, 5};
    for (std::size_t r = 0; r < batch.tokens.size(); ++r) {
      batch.tokens[r] = static_cast<std::int32_t>((r * 7 + number) % 50);
      batch.targets[r] = static_cast<std::int32_t>((r * 11) % 50);
    }
    StepInput input;
    input.step = number;
    input.micro_batches = 1;
    input.lr = 1e-2;
    return engine.train_step(input, [&](std::int64_t) { return &batch; });
  }
};

// Steps of one length match, bit for bit, an engine built for that length, and the states are
// kept.
TEST_P(LengthChanges, GiveTheBitsOfAnEngineOfThatLength) {
  auto changing = engine(24, true), plain = engine(24, false), shorter = engine(8, false);
  changing->set_length(8);
  const StepResult ours = step(*changing, 0), theirs = step(*shorter, 0);
  EXPECT_EQ(ours.loss.words().sum, theirs.loss.words().sum);
  EXPECT_EQ(ours.grad_norm, theirs.grad_norm);
  EXPECT_EQ(step(*changing, 1).loss.words().sum, step(*shorter, 1).loss.words().sum);

  auto again = engine(24, true);
  for (const std::int64_t length : {8, 16, 24, 16, 8}) {
    again->set_length(length);
    again->evaluate(0, {});
  }
  again->set_length(24);
  for (std::uint64_t s = 0; s < 3; ++s)
    EXPECT_EQ(step(*again, s).grad_norm, step(*plain, s).grad_norm);
}

TEST_P(LengthChanges, AreWithinThePlannedMemory) {
  const std::int64_t before = cpu::device().allocated();
  auto changing = engine(24, true);
  const std::int64_t planned = changing->memory().total();
  for (const std::int64_t length : {8, 16, 24, 8}) {
    changing->set_length(length);
    step(*changing, 0);
    EXPECT_EQ(cpu::device().allocated() - before, planned);
    EXPECT_EQ(changing->memory().total(), planned);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, LengthChanges, testing::Values("gpt", "llama"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trireme
