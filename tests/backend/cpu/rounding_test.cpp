// bf16 with stochastic rounding: right on average, the same for every cut, and no sum stands still.
#include "backend/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/device.h"

namespace trireme::cpu {
namespace {

const StepBlock block{.seed = 1, .step = 2};

Rounding rounding(std::uint32_t use) {
  return {.block = &block, .stream = 3, .use = use};
}

void narrow(bf16* dst, const float* src, std::int64_t count, std::uint32_t use,
            std::int64_t first) {
  state_kernels().narrow(queue(), dst, src, count, rounding(use), first);
}

TEST(Narrow, RoundsToOneOfTheNeighborsAndIsRightOnAverage) {
  const int draws = 65536;
  for (const float x : {1.001f, -1.001f, 3.14159f, 1e-30f, 1e30f, 1.0039f, 1e-40f}) {
    double sum = 0;
    float low = INFINITY, high = -INFINITY;
    for (int bits = 0; bits < draws; ++bits) {
      const auto rounded =
          static_cast<float>(round_stochastically(x, static_cast<std::uint16_t>(bits)));
      sum += rounded;
      low = std::min(low, rounded);
      high = std::max(high, rounded);
    }
    EXPECT_LE(low, x);
    EXPECT_GE(high, x);
    EXPECT_LE(high - low, std::max(std::abs(x) / 127, 1e-40f)) << x;
    EXPECT_NEAR(sum / draws, x, std::abs(x) * 1e-6) << x;
  }
}

TEST(Narrow, KeepsWhatBf16CanHold) {
  for (int pattern = 0; pattern < 65536; ++pattern) {
    bf16 exact;
    exact.bits = static_cast<std::uint16_t>(pattern);
    const auto value = static_cast<float>(exact);
    for (const int bits : {0, 1, 32768, 65535}) {
      const bf16 rounded = round_stochastically(value, static_cast<std::uint16_t>(bits));
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(static_cast<float>(rounded)));
      } else {
        EXPECT_EQ(rounded.bits, exact.bits);
      }
    }
  }
  // The payload of this NaN lies in the half that is cut off.
  const auto hidden = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(static_cast<float>(round_stochastically(hidden, 0))));
}

TEST(Narrow, DoesNotDependOnTheCut) {
  const std::int64_t count = 200000, cut = 70004;
  std::vector<float> values(count);
  for (std::int64_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i));
  std::vector<bf16> whole(count), parts(count), other(count);
  narrow(whole.data(), values.data(), count, 7, 0);
  narrow(parts.data(), values.data(), cut, 7, 0);
  narrow(parts.data() + cut, values.data() + cut, count - cut, 7, cut);
  narrow(other.data(), values.data(), count, 8, 0);
  int different = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(whole[i].bits, parts[i].bits) << i;
    different += whole[i].bits != other[i].bits;
  }
  EXPECT_GT(different, count / 4);  // another key, other roundings
}

// 4,096 summands of which each is less than half of the last bit of the sum from the 256th on.
TEST(Narrow, SumsGoOnGrowing) {
  const std::int64_t count = 1000;
  const int summands = 4096;
  const std::vector<float> ones(count, 1.f);
  std::vector<bf16> sums(count);
  for (int s = 0; s < summands; ++s)
    state_kernels().add_narrow(queue(), sums.data(), ones.data(), count,
                               rounding(static_cast<std::uint32_t>(s)), s == 0);
  double mean = 0;
  for (const bf16 sum : sums) {
    EXPECT_NEAR(static_cast<float>(sum), summands, 0.25 * summands);
    mean += static_cast<float>(sum) / static_cast<double>(count);
  }
  EXPECT_NEAR(mean, summands, 0.01 * summands);
}

TEST(Narrow, KeysDifferByEveryArgument) {
  const std::uint64_t key = rounding_key(1, 2, 3, 4);
  EXPECT_EQ(key, rounding_key(1, 2, 3, 4));
  EXPECT_NE(key, rounding_key(2, 2, 3, 4));
  EXPECT_NE(key, rounding_key(1, 3, 3, 4));
  EXPECT_NE(key, rounding_key(1, 2, 4, 4));
  EXPECT_NE(key, rounding_key(1, 2, 3, 5));
}

}  // namespace
}  // namespace trireme::cpu
