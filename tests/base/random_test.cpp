// Tests of the counter-based generator: published test vectors, and uniformity.
#include "base/random.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// Known answers for Philox4x32-10 (Random123's kat_vectors).
TEST(Philox, MatchesPublishedVectors) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Philox{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~std::uint64_t{0}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (Philox{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Random, NormalHasUnitVariance) {
  double sum = 0, squares = 0;
  constexpr int count = 200000;
  for (int i = 0; i < count; ++i) {
    const double x = normal(7, 3, i);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / count, 0, 0.01);
  EXPECT_NEAR(squares / count, 1, 0.02);
}

}  // namespace
}  // namespace trireme
