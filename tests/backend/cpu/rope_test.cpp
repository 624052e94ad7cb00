// Rotary position embedding in the buffer of queries, keys and values.
#include "backend/cpu/kernel_test.h"

namespace trireme::cpu {
namespace {

template <class A>
struct Tables {
  std::vector<A> cos, sin;
};

template <class A>
Tables<A> make_tables(std::int64_t positions, std::int64_t half) {
  Tables<A> t;
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) *
                           std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
      t.cos.push_back(static_cast<A>(std::cos(angle)));
      t.sin.push_back(static_cast<A>(std::sin(angle)));
    }
  }
  return t;
}

template <class A>
std::vector<double> reference(const AttentionShape& s, std::vector<double> x, std::int64_t rotary,
                              const Tables<A>& t, const std::int32_t* positions, int direction,
                              const A* query_factor = nullptr) {
  const std::int64_t half = rotary / 2;
  for (std::int64_t r = 0; r < s.batch * s.seq; ++r) {
    const std::int64_t p = positions ? positions[r] : r % s.seq;
    for (std::int64_t g = 0; g < s.groups; ++g) {
      for (std::int64_t h = 0; h <= s.queries_per_group; ++h) {  // the queries and the key
        double* head =
            x.data() + r * s.qkv_cols() + (g * (s.queries_per_group + 2) + h) * s.head_dim;
        for (std::int64_t i = 0; i < half; ++i) {
          const double c = t.cos[p * half + i], sn = t.sin[p * half + i] * direction;
          const double a = head[i], b = head[half + i];
          head[i] = a * c - b * sn;
          head[half + i] = b * c + a * sn;
        }
        for (std::int64_t i = 0; query_factor && h < s.queries_per_group && i < s.head_dim; ++i)
          head[i] *= query_factor[p];
      }
    }
  }
  return x;
}

template <class T>
class Rope : public testing::Test {};
TYPED_TEST_SUITE(Rope, StorageTypes);

TYPED_TEST(Rope, RotatesQueriesAndKeysOnly) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const std::int64_t head_dim : {2, 6, 64, 80, 128}) {
      for (const std::int64_t rotary : {head_dim, (head_dim / 4) * 2}) {
        if (rotary == 0) continue;
        const AttentionShape s{2, 5, 3, 2, head_dim};
        const auto t = make_tables<Acc<T>>(20, rotary / 2);
        const auto x = random_values<T>(10 * s.qkv_cols(), 1);
        const std::int32_t positions[] = {0, 1, 2, 0, 1, 19, 3, 3, 7, 0};
        for (const std::int32_t* at : {static_cast<const std::int32_t*>(nullptr), +positions}) {
          for (const int direction : {1, -1}) {
            Guarded<T> qkv(x);
            kernels<T>(set).rope(queue(), qkv.data(), s, rotary, t.cos.data(), t.sin.data(),
                                 nullptr, at, direction);
            EXPECT_TRUE(close(qkv, reference(s, x, rotary, t, at, direction), 4));
          }
        }
      }
    }
  });
}

// Elements of queries that are not rotated, too, and nothing of keys.
TYPED_TEST(Rope, MultipliesQueriesByTheFactorOfTheirPosition) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const std::int64_t head_dim : {6, 20, 64}) {
      const AttentionShape s{2, 5, 3, 2, head_dim};
      const auto t = make_tables<Acc<T>>(20, head_dim / 4);
      const auto factors = random_values<Acc<T>>(20, 3);
      const auto x = random_values<T>(10 * s.qkv_cols(), 1);
      const std::int32_t positions[] = {0, 1, 2, 0, 1, 19, 3, 3, 7, 0};
      Guarded<T> qkv(x);
      const Guarded<Acc<T>> query_factor(factors);
      kernels<T>(set).rope(queue(), qkv.data(), s, head_dim / 4 * 2, t.cos.data(), t.sin.data(),
                           query_factor.data(), positions, 1);
      // Rounded to the storage type twice, as transformers does: rotated, and multiplied.
      const double once_more = rounding<T> / rounding<Acc<T>>;
      EXPECT_TRUE(close(qkv,
                        reference(s, x, head_dim / 4 * 2, t, positions, 1, query_factor.data()),
                        8 + once_more));
    }
  });
}

// The rotation's gradient is the rotation back.
TEST(RopeGradient, UndoesTheRotation) {
  with_sets([](Isa set) {
    const AttentionShape s{1, 16, 2, 1, 32};
    const auto t = make_tables<double>(16, 16);
    const auto x = random_values<double>(16 * s.qkv_cols(), 2);
    Guarded<double> qkv(x);
    kernels<double>(set).rope(queue(), qkv.data(), s, 32, t.cos.data(), t.sin.data(), nullptr,
                              nullptr, 1);
    kernels<double>(set).rope(queue(), qkv.data(), s, 32, t.cos.data(), t.sin.data(), nullptr,
                              nullptr, -1);
    EXPECT_TRUE(close(qkv, x, 8));
  });
}

}  // namespace
}  // namespace trireme::cpu
