// Tests of sums without rounding.
#include "base/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace trireme {
namespace {

double sum_of(const std::vector<double>& terms) {
  ExactSum sum;
  for (const double term : terms) sum.add(term);
  return sum.value();
}

TEST(ExactSum, SmallIntegersAreExact) {
  EXPECT_EQ(sum_of({}), 0);
  EXPECT_EQ(sum_of({1, 2, 3.5}), 6.5);
  EXPECT_EQ(sum_of({-1, -2, 0.5}), -2.5);
  EXPECT_EQ(sum_of({5, -5}), 0);
}

TEST(ExactSum, LosesNothingBetweenTheEndsOfTheRange) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(sum_of({1e300, tiny, -1e300}), tiny);
  EXPECT_EQ(sum_of({1e16, 1, -1e16}), 1);
  EXPECT_EQ(sum_of({0x1p1023, -tiny, -0x1p1023}), -tiny);
}

TEST(ExactSum, OrderAndGroupingDoNotMatter) {
  std::mt19937_64 random(1);
  std::vector<double> terms;
  for (int i = 0; i < 2000; ++i) {
    terms.push_back(std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())),
                               static_cast<int>(random() % 400) - 200));
  }
  const double all = sum_of(terms);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(terms.begin(), terms.end(), random);
    EXPECT_EQ(sum_of(terms), all);
    const auto cut = static_cast<std::size_t>(random() % terms.size());
    ExactSum left, right;
    for (std::size_t i = 0; i < terms.size(); ++i) (i < cut ? left : right).add(terms[i]);
    left.add(right);
    EXPECT_EQ(left.value(), all);
  }
}

TEST(ExactSum, WordsOfSeveralSumsAddUp) {
  ExactSum a, b;
  a.add(0.1);
  a.add(-7);
  b.add(0.2);
  const auto words_a = a.normalized_words();
  const auto words_b = b.normalized_words();
  for (int i = 0; i < ExactSum::word_count; ++i) words_a[i] += words_b[i];
  EXPECT_EQ(a.value(), sum_of({-7, 0.2, 0.1}));
}

TEST(ExactSum, WhatIsNotFiniteShows) {
  EXPECT_TRUE(std::isnan(sum_of({1, std::numeric_limits<double>::infinity(), 2})));
  EXPECT_TRUE(std::isnan(sum_of({std::numeric_limits<double>::quiet_NaN()})));
}

}  // namespace
}  // namespace trireme
