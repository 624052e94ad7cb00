// Tests of the 8-bit types: all bytes and all bf16 numbers against PyTorch's casts
// (data/make_fp8.py), and rounding between all neighboring values.
#include "base/fp8.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/file.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
const std::map<std::string, Fp8Type> all_types = {{"e4m3", Fp8Type::e4m3},
                                                  {"e5m2", Fp8Type::e5m2},
                                                  {"e4m3_fnuz", Fp8Type::e4m3_fnuz},
                                                  {"e5m2_fnuz", Fp8Type::e5m2_fnuz}};

const json& golden() {
  static const json file = json::parse(read_file(fs::path(TRIREME_TEST_DATA) / "fp8.json"));
  return file;
}

float number(const json& value) {
  if (value.is_null()) return nan;
  if (value.is_string()) return value == "inf" ? infinity : -infinity;
  return value.get<float>();
}

class Fp8 : public testing::TestWithParam<std::string> {
 protected:
  Fp8Type type_ = all_types.at(GetParam());
  const json& golden_ = golden()["types"][GetParam()];
};

TEST_P(Fp8, EveryByteMeansWhatItDoesInPyTorch) {
  for (int bits = 0; bits < 256; ++bits) {
    const float value = from_fp8(type_, static_cast<std::uint8_t>(bits));
    const float expected = number(golden_["values"][bits]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    EXPECT_EQ(value, expected) << bits;
    EXPECT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    EXPECT_EQ(to_fp8(type_, value), bits);
  }
}

TEST_P(Fp8, NumbersAreRoundedAsInPyTorch) {
  for (std::size_t i = 0; i < golden()["some"].size(); ++i) {
    const float x = number(golden()["some"][i]);
    EXPECT_EQ(to_fp8(type_, x), golden_["some"][i].get<int>()) << x;
  }
  std::uint64_t hash = 0xcbf29ce484222325;
  for (int bits = 0; bits < 65536; ++bits) {
    bf16 x;
    x.bits = static_cast<std::uint16_t>(bits);
    const auto value = static_cast<float>(x);
    if (std::isfinite(value)) hash = (hash ^ to_fp8(type_, value)) * 0x100000001b3;
  }
  EXPECT_EQ(std::to_string(hash), golden_["hash_of_bf16"]);
}

// Ties round to the number whose byte is even.
TEST_P(Fp8, NumbersGoToTheNearest) {
  const Fp8Rounding round(type_);
  for (int bits = 0; bits < 127; ++bits) {
    const float low = from_fp8(type_, static_cast<std::uint8_t>(bits));
    const float high = from_fp8(type_, static_cast<std::uint8_t>(bits + 1));
    if (!(high < infinity)) break;
    const float middle = (low + high) / 2;
    const float even = bits % 2 == 0 ? low : high;
    for (const float sign : {1.f, -1.f}) {
      EXPECT_EQ(round(sign * middle), sign * even);
      EXPECT_EQ(round(sign * std::nextafter(middle, 0.f)), sign * low);
      EXPECT_EQ(round(sign * std::nextafter(middle, infinity)), sign * high);
      EXPECT_EQ(from_fp8(type_, to_fp8(type_, sign * middle)), sign * even);
    }
  }
}

TEST_P(Fp8, LargeNumbersSaturateAndWhatIsNotFiniteShows) {
  const Fp8Rounding round(type_);
  const float largest = format_of(type_).largest;
  for (const float x : {largest * 1.03f, largest * 1.5f, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(round(x), largest);
    EXPECT_EQ(round(-x), -largest);
    EXPECT_EQ(from_fp8(type_, to_fp8(type_, -x)), -largest);
  }
  for (const float x : {infinity, -infinity, nan}) EXPECT_TRUE(std::isnan(round(x)));
  EXPECT_TRUE(std::isnan(from_fp8(type_, to_fp8(type_, nan))));
  for (const float x : {infinity, -infinity}) {
    const float back = from_fp8(type_, to_fp8(type_, x));
    EXPECT_TRUE(format_of(type_).has_infinity ? back == x : std::isnan(back));
  }
}

// Covers numbers of every exponent: too large, too small, and everything in between.
TEST_P(Fp8, TheByteIsThatOfTheRoundedNumber) {
  const Fp8Rounding round(type_);
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    const float x = std::bit_cast<float>(upper << 16);
    const float rounded = round(x), meant = from_fp8(type_, round.byte(x));
    if (std::isnan(rounded))
      EXPECT_TRUE(std::isnan(meant)) << x;
    else
      EXPECT_EQ(meant, rounded) << x;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Fp8, testing::Values("e4m3", "e5m2", "e4m3_fnuz", "e5m2_fnuz"),
                         [](const auto& info) { return info.param; });

TEST(Fp8Scale, BringsTheLargestNumberToTheLargestOfTheFormat) {
  EXPECT_EQ(fp8_scale(2, 448, false), 224);
  EXPECT_EQ(fp8_scale(3, 448, false), 448.f / 3);
  EXPECT_EQ(fp8_scale(3, 448, true), 128);  // not above 149.3
  EXPECT_EQ(fp8_scale(3.5f, 448, true), 128);
  EXPECT_EQ(fp8_scale(0, 448, false), 1);
  EXPECT_EQ(fp8_scale(infinity, 448, true), 1);
  EXPECT_EQ(fp8_scale(nan, 448, true), 1);
  EXPECT_EQ(fp8_scale(1e-40f, 448, false), 0x1p126f);
}

}  // namespace
}  // namespace trireme
