// Tests of the values that error messages suggest.
#include "config/divisors.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(DivisorsNear, TwoOnEachSide) {
  EXPECT_EQ(divisors_near(12, 5), "3, 4, 6 or 12");
  EXPECT_EQ(divisors_near(16, 4), "1, 2, 4 or 8");  // the square root counts once
  EXPECT_EQ(divisors_near(12, 100), "6 or 12");
  EXPECT_EQ(divisors_near(7, 1), "1 or 7");
  EXPECT_EQ(divisors_near(1, 3), "1");
}

TEST(MultiplesNear, OnBothSides) {
  EXPECT_EQ(multiples_near(100, 32), "96 or 128");
  EXPECT_EQ(multiples_near(5, 32), "32");
}

}  // namespace
}  // namespace trireme
