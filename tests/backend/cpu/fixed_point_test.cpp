// Gradients as integers: sums that no order changes, and what does not fit is noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/device.h"

namespace trireme {
namespace {

// Returns whether all summands fit.
bool add_fixed_point(std::int64_t* sums, const float* gradient, std::int64_t count,
                     double loss_scale, double limit, bool overwrite) {
  StepBlock block;
  block.loss_scale = loss_scale;
  std::int64_t overflows = 0;
  cpu::state_kernels().add_fixed_point(cpu::queue(), sums, gradient, count, &block, limit,
                                       overwrite, &overflows);
  return overflows == 0;
}

void fixed_point_to_float(std::int64_t* sums, std::int64_t count, double loss_scale) {
  StepBlock block;
  block.loss_scale = loss_scale;
  cpu::state_kernels().fixed_point_to_float(cpu::queue(), sums, count, &block);
}

constexpr std::int64_t count = 1000;
constexpr int summands = 50;

std::vector<std::vector<float>> random_gradients() {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> all(summands, std::vector<float>(count));
  for (auto& gradient : all) {
    const float size = std::ldexp(1.f, -static_cast<int>(random() % 24));
    for (float& value : gradient) value = size * normal(random);
  }
  return all;
}

std::vector<std::int64_t> sum(const std::vector<std::vector<float>>& all, double loss_scale) {
  std::vector<std::int64_t> sums(count, 99);
  for (std::size_t s = 0; s < all.size(); ++s) {
    EXPECT_TRUE(add_fixed_point(sums.data(), all[s].data(), count, loss_scale,
                                fixed_point_limit(summands), s == 0));
  }
  return sums;
}

TEST(FixedPoint, SumsDoNotDependOnTheOrder) {
  auto all = random_gradients();
  const auto expected = sum(all, 1);
  std::mt19937 random(6);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(all.begin(), all.end(), random);
    EXPECT_EQ(sum(all, 1), expected);
  }
}

TEST(FixedPoint, GivesTheSumToTheLastUnit) {
  const auto all = random_gradients();
  for (const double loss_scale : {1.0, 65536.0}) {
    auto sums = sum(all, loss_scale);
    fixed_point_to_float(sums.data(), count, loss_scale);
    const auto* result = reinterpret_cast<const float*>(sums.data());
    const double unit = loss_scale * std::ldexp(1.0, -fixed_point_bits);
    for (std::int64_t i = 0; i < count; ++i) {
      double exact = 0;
      for (const auto& gradient : all) exact += gradient[i];
      // Each summand is rounded to a whole unit, the result to a float.
      EXPECT_NEAR(result[i], exact, summands * unit / 2 + std::abs(exact) * 6e-8) << i;
    }
  }
}

TEST(FixedPoint, RoundsToNearestEven) {
  const double unit = std::ldexp(1.0, -fixed_point_bits);
  const std::pair<double, std::int64_t> cases[] = {{0.5, 0},
                                                   {1.5, 2},
                                                   {2.5, 2},
                                                   {0.49, 0},
                                                   {0.51, 1},
                                                   {-0.5, 0},
                                                   {-1.5, -2},
                                                   {-2.5, -2},
                                                   {-0.51, -1},
                                                   {8388607.5, 8388608},
                                                   {0x1p51, std::int64_t{1} << 51},
                                                   {-0x1p60, -(std::int64_t{1} << 60)}};
  for (const auto& [units, expected] : cases) {
    const auto gradient = static_cast<float>(units * unit);
    std::int64_t sum = 0;
    EXPECT_TRUE(add_fixed_point(&sum, &gradient, 1, 1, fixed_point_limit(1), true));
    EXPECT_EQ(sum, expected) << units;
  }
}

TEST(FixedPoint, NoticesWhatItCannotHold) {
  const double limit = fixed_point_limit(4);
  const auto largest = static_cast<float>(std::ldexp(limit, -fixed_point_bits));
  std::vector<float> gradient(count, 0.5f);
  std::vector<std::int64_t> sums(count);
  const auto fits = [&](float value) {
    gradient[count - 1] = value;
    return add_fixed_point(sums.data(), gradient.data(), count, 1, limit, true);
  };
  EXPECT_TRUE(fits(0.99f * largest));
  EXPECT_TRUE(fits(-0.99f * largest));
  EXPECT_FALSE(fits(1.01f * largest));
  EXPECT_FALSE(fits(-1.01f * largest));
  EXPECT_FALSE(fits(std::numeric_limits<float>::infinity()));
  EXPECT_FALSE(fits(std::numeric_limits<float>::quiet_NaN()));
  // As many as were promised stay within 64 bits.
  gradient[count - 1] = 0.99f * largest;
  for (int s = 0; s < 4; ++s)
    EXPECT_TRUE(add_fixed_point(sums.data(), gradient.data(), count, 1, limit, s == 0));
  EXPECT_GT(sums[count - 1], 0);
}

}  // namespace
}  // namespace trireme
