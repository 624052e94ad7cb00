// Tests of BERT steps with no predicted word, which train on the sentence order loss alone.
#include <gtest/gtest.h>

#include "train/engine/engine.h"
#include "train/run/setup.h"

namespace trireme {
namespace {

constexpr std::int64_t batch = 4, seq = 8;

Config config_of() {
  Config config;
  ModelConfig& m = config.model;
  m.family = "bert";
  m.num_layers = 2;
  m.hidden_size = 16;
  m.num_heads = 2;
  m.seq_length = m.max_positions = seq;
  m.vocab_size = 30;
  resolve(m);
  config.run.precision = Precision::fp32;
  config.train.micro_batch_size = batch;
  config.train.global_batch_size = batch;
  return config;
}

// Runs a step on samples whose first token tells the label; `with_words` of them predict a word.
StepResult step(Engine& engine, int number, float word_weight, int count = batch,
                int with_words = batch) {
  Batch samples(count, seq);
  for (int b = 0; b < count; ++b) {
    samples.sample_ids[b] = b;
    samples.order_labels[b] = b % 2;
    for (int t = 0; t < seq; ++t) {
      samples.tokens[b * seq + t] = b % 2 ? 5 + t : 20 - t;
      samples.targets[b * seq + t] = 3;
      samples.segments[b * seq + t] = t >= seq / 2;
      samples.loss_weights[b * seq + t] = t == 2 && b < with_words ? word_weight : 0;
    }
  }
  StepInput input;
  input.step = static_cast<std::uint64_t>(number);
  input.micro_batches = 1;
  input.lr = 0.01;
  return engine.train_step(input, [&](std::int64_t) { return &samples; });
}

LossSum::Part order(const StepResult& result) {
  return result.loss.parts[1];
}

TEST(BertStep, WithoutPredictedWordsTrainsTheOrder) {
  const Config config = config_of();
  Engine engine(config, build_options(config), {});
  engine.allocate();
  engine.initialize();
  const StepResult first = step(engine, 0, 0);
  EXPECT_EQ(first.loss.words().count, 0);
  EXPECT_EQ(order(first).count, batch);
  EXPECT_GT(first.grad_norm, 0.01);
  StepResult last;
  for (int s = 1; s < 30; ++s) last = step(engine, s, 0);
  EXPECT_LT(order(last).mean(), 0.5 * order(first).mean());
  EXPECT_EQ(last.loss.mean(), order(last).mean());
}

// The gradient of the order loss does not depend on whether words are predicted.
TEST(BertStep, TheOrderWeighsTheSameWithAndWithoutWords) {
  const Config config = config_of();
  const auto order_gradient = [&](float word_weight) {
    Engine engine(config, build_options(config), {});
    engine.allocate();
    engine.initialize();
    const StepResult result = step(engine, 0, word_weight);
    const Stage& stage = engine.stage();
    const auto& parameters = stage.definition().parameters;
    const double words = result.loss.words().count;
    const double divisor = words > 0 ? words : order(result).count;
    for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
      if (parameters[p].name == "order_head.bias")
        return static_cast<const float*>(stage.gradient(p))[0] * batch * seq / divisor;
    }
    return 0.0;
  };
  const double alone = order_gradient(0);
  EXPECT_NE(alone, 0);
  EXPECT_NEAR(order_gradient(1), alone, 1e-6 * std::abs(alone));
}

// With one predicted word in three samples, the order loss weighs 1/3, which fp32 cannot represent.
TEST(BertStep, InDoubleTheOrderWeighsWhatItWeighsInDouble) {
  Config config = config_of();
  config.run.precision = Precision::fp64;
  config.train.micro_batch_size = config.train.global_batch_size = 3;
  const auto order_gradient = [&](int with_words) {
    Engine engine(config, build_options(config), {});
    engine.allocate();
    engine.initialize();
    const StepResult result = step(engine, 0, 1, 3, with_words);
    const double words = result.loss.words().count;
    const double divisor = words > 0 ? words : order(result).count;
    const auto& parameters = engine.stage().definition().parameters;
    for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
      if (parameters[p].name == "order_head.bias")
        return static_cast<const double*>(engine.stage().gradient(p))[0] * 3 * seq / divisor;
    }
    return 0.0;
  };
  const double alone = order_gradient(0);
  EXPECT_NE(alone, 0);
  EXPECT_NEAR(order_gradient(1), alone, 1e-14 * std::abs(alone));
}

}  // namespace
}  // namespace trireme
