// Tests of the sampling chain against processors of the transformers library, and its statistics.
#include "generate/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

// Returns 23 different scores from -2.75 to 2.75, shuffled.
std::vector<float> scores() {
  std::vector<float> logits(23);
  for (int i = 0; i < 23; ++i) logits[i] = static_cast<float>(i * 7919 % 23 - 11) / 4;
  return logits;
}

const std::vector<std::int32_t> kHistory{3, 5, 3, 7, 20, 0};

std::vector<float> warmed() {
  std::vector<float> logits = scores();
  penalize_repetition(logits, kHistory, 1.3f);
  apply_temperature(logits, 0.7f);
  return logits;
}

std::vector<int> kept(const std::vector<float>& logits) {
  std::vector<int> tokens;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) tokens.push_back(static_cast<int>(i));
  }
  return tokens;
}

TEST(RepetitionPenalty, EachDistinctTokenOnce) {
  std::vector<float> logits = scores();
  penalize_repetition(logits, kHistory, 1.3f);
  std::vector<float> expected = scores();
  expected[0] = -2.75f * 1.3f;
  expected[3] = 2.5f / 1.3f;
  expected[5] = 0.25f / 1.3f;
  expected[7] = -2.0f * 1.3f;
  expected[20] = -2.25f * 1.3f;
  EXPECT_EQ(logits, expected);
}

TEST(TopK, KeepsTheLargestAndTies) {
  std::vector<float> logits = warmed();
  keep_top_k(logits, 5);
  EXPECT_THAT(kept(logits), ElementsAre(3, 6, 13, 16, 19));
  std::vector<float> tied{1, 2, 2, 2, 0, 2, 1};
  keep_top_k(tied, 2);
  EXPECT_THAT(kept(tied), ElementsAre(1, 2, 3, 5));
  std::vector<float> all{1, 2};
  keep_top_k(all, 0);
  keep_top_k(all, 2);
  keep_top_k(all, 99);
  EXPECT_THAT(kept(all), ElementsAre(0, 1));
}

TEST(TopP, KeepsTheSetOfTheReference) {
  const auto with = [](float p) {
    std::vector<float> logits = warmed();
    keep_top_p(logits, p);
    return kept(logits);
  };
  EXPECT_THAT(with(0.0f), ElementsAre(13));
  EXPECT_THAT(with(0.1f), ElementsAre(13));
  EXPECT_THAT(with(0.5f), ElementsAre(13, 16));
  EXPECT_THAT(with(0.9f), ElementsAre(3, 6, 9, 13, 16, 19, 22));
  EXPECT_THAT(with(0.99f), ElementsAre(2, 3, 5, 6, 8, 9, 12, 13, 15, 16, 18, 19, 21, 22));
  EXPECT_EQ(with(1.0f).size(), 23u);
}

TEST(TopP, AmongEqualsTheLowerTokenIsDroppedFirst) {
  std::vector<float> logits{1, 2, 2, 2, 0, 2, 1};
  keep_top_p(logits, 0.5f);
  EXPECT_THAT(kept(logits), ElementsAre(2, 3, 5));
  keep_top_p(logits, 0.2f);
  EXPECT_THAT(kept(logits), ElementsAre(5));
  std::vector<float> quarters{0, 0, 0, 0};
  keep_top_p(quarters, 0.5f);  // the two dropped have exactly 1 - p together
  EXPECT_THAT(kept(quarters), ElementsAre(2, 3));
}

TEST(Draw, InvertsTheCumulativeProbability) {
  const float none = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits{none, 0, none, 0, std::log(2.0f), none};  // 1/4, 1/4, 1/2
  EXPECT_EQ(draw(logits, 0.0), 1);
  EXPECT_EQ(draw(logits, 0.24), 1);
  EXPECT_EQ(draw(logits, 0.26), 3);
  EXPECT_EQ(draw(logits, 0.51), 4);
  EXPECT_EQ(draw(logits, std::nextafter(1.0, 0.0)), 4);
}

TEST(NextToken, FrequenciesFollowTheChain) {
  const SamplingOptions options{
      .temperature = 0.7f, .top_k = 9, .top_p = 0.8f, .repetition_penalty = 1.3f};
  constexpr int kDraws = 20000;
  std::array<int, 23> counts{};
  for (int i = 0; i < kDraws; ++i) {
    std::vector<float> logits = scores();
    ++counts[next_token(logits, kHistory, options, 42, 0, i)];
  }
  std::array<double, 23> expected{};
  expected[3] = 0.12901528179645538;
  expected[6] = 0.1440010815858841;
  expected[13] = 0.4204179644584656;
  expected[16] = 0.20581212639808655;
  expected[19] = 0.10075359791517258;
  for (int t = 0; t < 23; ++t) {
    const double deviation = std::sqrt(expected[t] * (1 - expected[t]) * kDraws);
    EXPECT_NEAR(counts[t], expected[t] * kDraws, 4 * deviation) << t;
  }
}

TEST(NextToken, IsAFunctionOfSeedSequenceAndPosition) {
  const SamplingOptions options;
  const auto token = [&](std::uint64_t seed, std::uint64_t sequence, std::uint64_t position) {
    std::vector<float> logits(1000, 0.0f);
    return next_token(logits, {}, options, seed, sequence, position);
  };
  EXPECT_EQ(token(1, 2, 3), token(1, 2, 3));
  EXPECT_NE(token(1, 2, 3), token(2, 2, 3));
  EXPECT_NE(token(1, 2, 3), token(1, 3, 3));
  EXPECT_NE(token(1, 2, 3), token(1, 2, 4));
}

TEST(NextToken, GreedyKnowsOnlyThePenalty) {
  const SamplingOptions greedy{
      .sample = false, .temperature = 0.01f, .top_k = 1, .top_p = 0.1f, .repetition_penalty = 1.3f};
  std::vector<float> logits = scores();
  EXPECT_EQ(next_token(logits, kHistory, greedy, 0, 0, 0), 13);
  logits = scores();
  EXPECT_EQ(next_token(logits, std::vector<std::int32_t>{13}, greedy, 0, 0, 0), 3);
  std::vector<float> tied{1, 3, 3};
  EXPECT_EQ(argmax(tied), 1);
}

TEST(NextToken, RefusesScoresThatAreNoNumbers) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits{0, bad, 1};
    EXPECT_THROW(next_token(logits, {}, {}, 0, 0, 0), Error);
  }
  std::vector<float> none(3, -std::numeric_limits<float>::infinity());
  EXPECT_THROW(next_token(none, {}, {}, 0, 0, 0), Error);
}

TEST(SamplingOptions, AreValidated) {
  EXPECT_NO_THROW(validate(SamplingOptions{}));
  EXPECT_THROW(validate({.temperature = 0}), Error);
  EXPECT_THROW(validate({.temperature = std::nanf("")}), Error);
  EXPECT_THROW(validate({.top_k = -1}), Error);
  EXPECT_THROW(validate({.top_p = 1.5f}), Error);
  EXPECT_THROW(validate({.repetition_penalty = 0}), Error);
}

// All accepted temperatures and penalties give a token, although quotients may exceed float range.
TEST(Sampling, ExtremesGiveTheLikeliestToken) {
  for (const float temperature : {1e-38f, 1e-45f, 1e-30f}) {
    std::vector<float> logits = {-3, 2, 50, 1, -80};
    const SamplingOptions options{.sample = true, .temperature = temperature};
    EXPECT_EQ(next_token(logits, {}, options, 1, 0, 0), 2) << temperature;
  }
  for (const float penalty : {1e-38f, 1e38f}) {
    std::vector<float> logits = {-3, 2, 50, 1, -80};
    const std::vector<std::int32_t> history = {0, 1, 2, 3, 4};
    const SamplingOptions options{.sample = true, .repetition_penalty = penalty};
    const std::int32_t token = next_token(logits, history, options, 1, 0, 0);
    EXPECT_TRUE(token >= 0 && token < 5);
  }
}

}  // namespace
}  // namespace trireme
