// Elements of two tensors, with the values that comparisons get wrong.
#include "tensors/difference.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace trireme {
namespace {

template <class A, class B>
TensorDifference difference(const std::vector<A>& a, const std::vector<B>& b) {
  TensorDifference found(dtype_of<A>, dtype_of<B>);
  // In pieces of odd sizes.
  const auto count = static_cast<std::int64_t>(a.size());
  for (std::int64_t begin = 0, size = 1; begin < count; begin += size, size = 2 * size + 1) {
    size = std::min(size, count - begin);
    found.add(reinterpret_cast<const std::byte*>(a.data() + begin),
              reinterpret_cast<const std::byte*>(b.data() + begin), size);
  }
  return found;
}

constexpr float inf = std::numeric_limits<float>::infinity();

TEST(TensorDifference, IsNoneForEqualBits) {
  std::vector<float> values(5000, 1.5f);
  values[7] = std::nanf("");
  values[9] = inf;
  values[11] = -0.f;
  const TensorDifference found = difference(values, values);
  EXPECT_EQ(found.elements(), 5000);
  EXPECT_EQ(found.differing(), 0);
  EXPECT_EQ(found.first().element, -1);
}

TEST(TensorDifference, FindsOneBitAnywhere) {
  for (const std::size_t at : {0u, 1023u, 1024u, 4999u}) {
    std::vector<float> a(5000, 1.f), b = a;
    b[at] = std::nextafter(1.f, 2.f);
    const TensorDifference found = difference(a, b);
    EXPECT_EQ(found.differing(), 1);
    EXPECT_EQ(found.first().element, static_cast<std::int64_t>(at));
    EXPECT_EQ(found.largest().element, static_cast<std::int64_t>(at));
    EXPECT_DOUBLE_EQ(found.largest_absolute(), std::ldexp(1.0, -23));
  }
}

TEST(TensorDifference, TellsFirstFromLargest) {
  std::vector<float> a(3000, 2.f), b = a;
  b[5] = 2.5f;
  b[2000] = -2.f;
  b[2500] = 3.f;
  const TensorDifference found = difference(a, b);
  EXPECT_EQ(found.differing(), 3);
  EXPECT_EQ(found.first().element, 5);
  EXPECT_EQ(found.largest().element, 2000);
  EXPECT_EQ(found.largest().b, -2.0);
  EXPECT_EQ(found.largest_absolute(), 4.0);
  EXPECT_EQ(found.largest_relative(), 2.0);
}

TEST(TensorDifference, OfSignedZerosIsOneOfBitsOnly) {
  const TensorDifference found = difference<float, float>({1, 0.f}, {1, -0.f});
  EXPECT_EQ(found.differing(), 1);
  EXPECT_EQ(found.first().element, 1);
  EXPECT_EQ(found.largest_absolute(), 0);
  EXPECT_EQ(found.largest_relative(), 0);
}

TEST(TensorDifference, CountsWhatIsNotFinite) {
  const float nan = std::nanf(""), other_nan = std::bit_cast<float>(0x7fc00001u);
  const TensorDifference found = difference<float, float>({1, nan, 2, inf, nan, 5, nan},
                                                          {1, 3.f, 9, -inf, nan, inf, other_nan});
  EXPECT_EQ(found.differing(), 5);
  EXPECT_EQ(found.not_finite(), 4);  // also NaNs of other bits
  EXPECT_EQ(found.largest().element, 1);
  EXPECT_EQ(found.largest_absolute(), 7);  // of the finite ones
}

TEST(TensorDifference, OfTwoTypesComparesValues) {
  const float nan = std::nanf("");
  const std::vector<float> wide{1.f, -0.f, nan, inf, 0.5f};
  std::vector<bf16> narrow;
  for (const float value : wide) narrow.emplace_back(value);
  const TensorDifference same = difference(wide, narrow);
  EXPECT_EQ(same.differing(), 0);
  EXPECT_TRUE(same.rounded());
  narrow[1] = bf16(0.f);
  EXPECT_EQ(difference(wide, narrow).differing(), 1);
  EXPECT_FALSE(difference(wide, narrow).rounded());
}

TEST(TensorDifference, TellsRoundingFromOtherDifferences) {
  const std::vector<float> wide{1.001f, 3.14159f};
  std::vector<bf16> narrow{bf16(wide[0]), bf16(wide[1])};
  EXPECT_EQ(difference(wide, narrow).differing(), 2);
  EXPECT_TRUE(difference(wide, narrow).rounded());
  EXPECT_TRUE(difference(narrow, wide).rounded());
  narrow[1] = bf16(3.15625f);  // the next but one
  EXPECT_FALSE(difference(wide, narrow).rounded());
  // Of one type, or of two that are equally wide, none is rounded.
  EXPECT_FALSE(difference(wide, wide).rounded());
  EXPECT_FALSE((difference<bf16, f16>({bf16(1.f)}, {f16(1.f)}).rounded()));
}

TEST(TensorDifference, ComparesFloatingPointTypesAndEqualTypes) {
  EXPECT_TRUE(TensorDifference::comparable(DType::f64, DType::f16));
  EXPECT_TRUE(TensorDifference::comparable(DType::i32, DType::i32));
  EXPECT_FALSE(TensorDifference::comparable(DType::i32, DType::f32));
  EXPECT_FALSE(TensorDifference::comparable(DType::i32, DType::i64));
  TensorDifference whole(DType::i32, DType::i32);
  const std::int32_t a[] = {7, 9}, b[] = {7, 6};
  whole.add(reinterpret_cast<const std::byte*>(a), reinterpret_cast<const std::byte*>(b), 2);
  EXPECT_EQ(whole.differing(), 1);
  EXPECT_EQ(whole.largest_absolute(), 3);
}

}  // namespace
}  // namespace trireme
