// Residual addition, soft caps, the cast of master weights and the search for what is not finite.
#include "backend/cpu/kernel_test.h"

namespace trireme::cpu {
namespace {

template <class T>
class Elementwise : public testing::Test {};
TYPED_TEST_SUITE(Elementwise, StorageTypes);

TYPED_TEST(Elementwise, AddsAndCopies) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const std::int64_t cols : {1, 3, 17, 769, 20001}) {
      const std::int64_t rows = 4, count = rows * cols;
      const auto a = random_values<T>(count, 1), b = random_values<T>(count, 2);
      std::vector<double> want(count);
      for (std::int64_t i = 0; i < count; ++i) want[i] = a[i] + b[i];
      const Guarded<T> first(a), second(b);
      Guarded<T> y(count), over_a = first, over_b = second, copy(count);
      const auto& k = kernels<T>(set);
      k.add(queue(), y.data(), first.data(), second.data(), rows, cols, Dropout{});
      k.add(queue(), over_a.data(), over_a.data(), second.data(), rows, cols, Dropout{});
      k.add(queue(), over_b.data(), first.data(), over_b.data(), rows, cols, Dropout{});
      k.add(queue(), copy.data(), nullptr, second.data(), rows, cols, Dropout{});
      EXPECT_TRUE(close(y, want, 1));
      EXPECT_TRUE(y.same_bits(over_a) && y.same_bits(over_b));
      EXPECT_TRUE(copy.same_bits(second));
      k.add(queue(), copy.data(), nullptr, copy.data(), rows, cols, Dropout{});
      EXPECT_TRUE(copy.same_bits(second));
    }
  });
}

TYPED_TEST(Elementwise, MultipliesByANumber) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const std::int64_t count : {1, 17, 769}) {
      const auto a = random_values<T>(count, 1);
      std::vector<double> want(count);
      for (std::int64_t i = 0; i < count; ++i) want[i] = 1.75 * a[i];
      const Guarded<T> x(a);
      Guarded<T> y(count), in_place = x;
      kernels<T>(set).scale(queue(), y.data(), x.data(), count, 1.75);
      kernels<T>(set).scale(queue(), in_place.data(), in_place.data(), count, 1.75);
      EXPECT_TRUE(close(y, want, 1));
      EXPECT_TRUE(y.same_bits(in_place));
    }
  });
}

// Small numbers too keep their digits.
TYPED_TEST(Elementwise, CapsSoftly) {
  using T = TypeParam;
  constexpr double cap = 30;
  with_sets([](Isa set) {
    for (const std::int64_t count : {1, 17, 769}) {
      auto a = random_values<T>(count, 1);
      for (std::int64_t i = 0; i < count; ++i)
        a[i] = static_cast<float>(a[i] * std::pow(10.0, static_cast<double>(i % 5 - 2)));
      a[0] = -INFINITY;
      const Guarded<T> x(a), dy(random_values<T>(count, 2));
      std::vector<double> want(count), slopes(count);
      for (std::int64_t i = 0; i < count; ++i) {
        const double t = std::tanh(to_double(x[i]) / cap);
        want[i] = cap * t;
        slopes[i] = to_double(dy[i]) * (1 - t * t);
      }
      Guarded<T> y(count), dx(count), in_place = x, over_x = x, over_dy = dy;
      const auto& k = kernels<T>(set);
      k.soft_cap(queue(), y.data(), x.data(), count, cap);
      k.soft_cap(queue(), in_place.data(), in_place.data(), count, cap);
      k.soft_cap_grad(queue(), dx.data(), dy.data(), x.data(), count, cap);
      k.soft_cap_grad(queue(), over_x.data(), dy.data(), over_x.data(), count, cap);
      k.soft_cap_grad(queue(), over_dy.data(), over_dy.data(), x.data(), count, cap);
      EXPECT_TRUE(close(y, want, 6));
      EXPECT_TRUE(y.same_bits(in_place));
      EXPECT_TRUE(dx.same_bits(over_x) && dx.same_bits(over_dy));
      for (std::int64_t i = 0; i < count; ++i)
        EXPECT_NEAR(to_double(dx[i]), slopes[i],
                    4e-3 * std::abs(slopes[i]) + 1e-6 * std::abs(to_double(dy[i])))
            << i;
    }
  });
}

TYPED_TEST(Elementwise, NotFiniteValuesPass) {
  using T = TypeParam;
  const double inf = std::numeric_limits<double>::infinity();
  with_sets([&](Isa set) {
    const Guarded<T> a({NAN, inf, inf, 1, -inf}), b({1, 1, -inf, NAN, 2});
    Guarded<T> y(5);
    kernels<T>(set).add(queue(), y.data(), a.data(), b.data(), 1, 5, Dropout{});
    EXPECT_TRUE(close(y, {NAN, inf, NAN, NAN, -inf}));
  });
}

TYPED_TEST(Elementwise, CastRoundsAsTheTypeDoes) {
  using T = TypeParam;
  using A = Acc<T>;
  // Every exponent, both signs, and fractions on and around the ties.
  std::vector<A> source = {A{0}, A(-0.0), A(INFINITY), A(-INFINITY), A(1e-45), A(3e38), A(3.4e38)};
  for (int exponent = -150; exponent <= 127; ++exponent) {
    for (int fraction = 0; fraction < 64; ++fraction) {
      for (const double nudge : {0.0, 0x1p-22, -0x1p-22}) {
        const double value = std::ldexp(1 + fraction / 4096.0 + 0.5 + nudge, exponent);
        source.push_back(static_cast<A>(value));
        source.push_back(static_cast<A>(-value));
      }
    }
  }
  const auto count = static_cast<std::int64_t>(source.size());
  with_sets([&](Isa set) {
    Guarded<T> y(count);
    kernels<T>(set).cast_from_master(queue(), y.data(), source.data(), count);
    EXPECT_TRUE(y.intact());
    // The conversion to bf16 in hardware takes subnormals for zero.
    const bool flushes = std::is_same_v<T, bf16> && set == Isa::amx;
    for (std::int64_t i = 0; i < count; ++i) {
      if (flushes && std::abs(source[i]) < A(0x1p-126)) {
        ASSERT_LT(std::abs(y[i]), 0x1p-126);
        continue;
      }
      const double want = to_double(T(source[i]));
      ASSERT_TRUE(y[i] == want && std::signbit(y[i]) == std::signbit(want))
          << source[i] << " became " << y[i];
    }
  });
}

TYPED_TEST(Elementwise, CastKeepsEveryNan) {
  using T = TypeParam;
  using A = Acc<T>;
  std::vector<A> source;
  for (int bit = 0; bit < 22; ++bit) {  // also those whose upper half alone would read as infinity
    const auto bits = 0x7f800000u | 1u << bit;
    source.push_back(static_cast<A>(std::bit_cast<float>(bits)));
    source.push_back(static_cast<A>(std::bit_cast<float>(bits | 0x80000000u)));
  }
  with_sets([&](Isa set) {
    Guarded<T> y(static_cast<std::int64_t>(source.size()));
    kernels<T>(set).cast_from_master(queue(), y.data(), source.data(), y.size());
    for (std::int64_t i = 0; i < y.size(); ++i) EXPECT_TRUE(std::isnan(y[i]));
  });
}

template <class T>
std::int64_t first_bad(const Kernels<T>& k, const T* x, std::int64_t count) {
  std::int64_t index = 99;
  k.first_not_finite(queue(), &index, x, count);
  return index;
}

TYPED_TEST(Elementwise, FindsTheFirstThatIsNotFinite) {
  using T = TypeParam;
  const double inf = std::numeric_limits<double>::infinity();
  const double largest = std::is_same_v<T, f16> ? 65504 : 3e38;
  with_sets([&](Isa set) {
    const auto& k = kernels<T>(set);
    for (const std::int64_t count : {1, 3, 17, 769, 300000}) {
      Guarded<T> x(std::vector<double>(count, largest));
      EXPECT_EQ(first_bad<T>(k, x.data(), count), -1);
      x.data()[count - 1] = from_double<T>(NAN);
      EXPECT_EQ(first_bad<T>(k, x.data(), count), count - 1);
      x.data()[count / 2] = from_double<T>(-inf);
      EXPECT_EQ(first_bad<T>(k, x.data(), count), count / 2);
      x.data()[0] = from_double<T>(inf);
      EXPECT_EQ(first_bad<T>(k, x.data(), count), 0);
    }
    EXPECT_EQ(first_bad<T>(k, nullptr, 0), -1);
  });
}

}  // namespace
}  // namespace trireme::cpu
