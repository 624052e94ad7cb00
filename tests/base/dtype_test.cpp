// Tests of the 16-bit types over all bit patterns: the value of each pattern, and the rounding of
// floats between neighboring values.
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace trireme {
namespace {

constexpr int patterns = 1 << 16;

template <class T>
T of_bits(int bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

// Returns the value of a pattern with these exponent and mantissa widths, by definition.
double meaning(int bits, int exponent_bits, int mantissa_bits) {
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

template <class T, int exponent_bits, int mantissa_bits>
void check_all_patterns() {
  for (int bits = 0; bits < patterns; ++bits) {
    const double expected = meaning(bits, exponent_bits, mantissa_bits);
    const auto value = static_cast<float>(of_bits<T>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(T(value)))) << bits;
      continue;
    }
    ASSERT_EQ(value, expected) << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    ASSERT_EQ(T(value).bits, bits) << bits;  // round trip
  }
}

TEST(Bf16, EveryPatternMeansWhatItShould) {
  check_all_patterns<bf16, 8, 7>();
}

TEST(F16, EveryPatternMeansWhatItShould) {
  check_all_patterns<f16, 5, 10>();
}

// Between neighboring values, floats below the midpoint round down, those above it round up, and
// the midpoint rounds to even. The last neighbor is infinity, half a step above the largest number.
template <class T, int exponent_bits, int mantissa_bits>
void check_rounding() {
  const int infinity = ((1 << exponent_bits) - 1) << mantissa_bits;
  for (const int sign : {0, 1 << 15}) {
    for (int bits = 0; bits < infinity; ++bits) {
      const double low = meaning(bits, exponent_bits, mantissa_bits);
      const double before = bits > 0 ? meaning(bits - 1, exponent_bits, mantissa_bits) : 0;
      const double high = bits + 1 < infinity ? meaning(bits + 1, exponent_bits, mantissa_bits)
                                              : low + (low - before);
      const auto middle = static_cast<float>((low + high) / 2);
      ASSERT_EQ(middle, (low + high) / 2) << bits;  // a float represents it exactly
      const float s = sign ? -1.f : 1.f;
      ASSERT_EQ(T(s * std::nextafter(middle, 0.f)).bits, sign | bits) << bits;
      ASSERT_EQ(T(s * std::nextafter(middle, INFINITY)).bits, sign | (bits + 1)) << bits;
      ASSERT_EQ(T(s * middle).bits, sign | (bits + bits % 2)) << bits;
    }
  }
}

TEST(Bf16, RoundsToNearestEven) {
  check_rounding<bf16, 8, 7>();
}

TEST(F16, RoundsToNearestEven) {
  check_rounding<f16, 5, 10>();
}

TEST(DTypes, SizesAndNames) {
  EXPECT_EQ(size_of(DType::f64), 8);
  EXPECT_EQ(size_of(DType::f32), 4);
  EXPECT_EQ(size_of(DType::bf16), 2);
  EXPECT_EQ(size_of(DType::f16), 2);
  EXPECT_EQ(size_of(DType::i64), 8);
  EXPECT_EQ(size_of(DType::u8), 1);
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_EQ(name_of(DType::i32), "i32");
}

}  // namespace
}  // namespace trireme
