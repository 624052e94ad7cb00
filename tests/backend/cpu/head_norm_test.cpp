// RMSNorm of queries and keys, of each head and of all heads together, and its gradient.
#include "backend/cpu/kernel_test.h"

namespace trireme::cpu {
namespace {

// Calls body(column, index, is_key) for each head of queries and keys in a row.
template <class Body>
void for_normed_heads(const HeadNormShape& s, const Body& body) {
  std::int64_t index = 0;
  for (std::int64_t g = 0; g < s.groups; ++g)
    for (std::int64_t h = 0; h <= s.queries_per_group; ++h)
      body((g * (s.queries_per_group + 2) + h) * s.head_dim, index++, h == s.queries_per_group);
}

struct Forward {
  std::vector<double> y, rstd;
};

// One norm over all heads of queries and one over those of keys, element by element.
Forward reference_of_all_heads(const HeadNormShape& s, const std::vector<double>& x,
                               const std::vector<double>& query_weight,
                               const std::vector<double>& key_weight) {
  Forward out{x, {}};
  for (std::int64_t r = 0; r < s.rows; ++r) {
    std::vector<double*> elements[2];
    for_normed_heads(s, [&](std::int64_t column, std::int64_t, bool is_key) {
      for (std::int64_t i = 0; i < s.head_dim; ++i)
        elements[is_key].push_back(out.y.data() + r * s.qkv_cols() + column + i);
    });
    for (const bool is_key : {false, true}) {
      double squares = 0;
      for (const double* element : elements[is_key]) squares += *element * *element;
      const auto count = static_cast<double>(elements[is_key].size());
      out.rstd.push_back(1 / std::sqrt(squares / count + s.eps));
      for (std::size_t i = 0; i < elements[is_key].size(); ++i)
        *elements[is_key][i] *= out.rstd.back() * (is_key ? key_weight : query_weight)[i];
    }
  }
  return out;
}

Forward reference(const HeadNormShape& s, const std::vector<double>& x,
                  const std::vector<double>& query_weight, const std::vector<double>& key_weight) {
  if (s.all_heads) return reference_of_all_heads(s, x, query_weight, key_weight);
  Forward out{x, {}};
  for (std::int64_t r = 0; r < s.rows; ++r) {
    for_normed_heads(s, [&](std::int64_t column, std::int64_t, bool is_key) {
      double* const head = out.y.data() + r * s.qkv_cols() + column;
      double squares = 0;
      for (std::int64_t i = 0; i < s.head_dim; ++i) squares += head[i] * head[i];
      out.rstd.push_back(1 / std::sqrt(squares / static_cast<double>(s.head_dim) + s.eps));
      for (std::int64_t i = 0; i < s.head_dim; ++i)
        head[i] *= out.rstd.back() * (is_key ? key_weight : query_weight)[i];
    });
  }
  return out;
}

constexpr HeadNormShape shapes[] = {
    {3, 2, 3, 4, 1e-5},         {5, 1, 1, 7, 1e-6},         {33, 3, 2, 64, 1e-6},
    {2, 2, 1, 128, 1e-5},       {3, 2, 3, 4, 1e-2, true},   {5, 1, 1, 7, 1e-6, true},
    {33, 3, 2, 64, 1e-6, true}, {2, 1, 4, 128, 1e-5, true},
};

template <class T>
class HeadNorm : public testing::Test {};
TYPED_TEST_SUITE(HeadNorm, StorageTypes);

TYPED_TEST(HeadNorm, NormalisesQueriesAndKeysOnly) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const HeadNormShape& s : shapes) {
      const auto x = random_values<T>(s.rows * s.qkv_cols(), 1);
      const auto wq = random_values<T>(s.query_weights(), 2);
      const auto wk = random_values<T>(s.key_weights(), 3);
      const Guarded<T> from(x), query_weight(wq), key_weight(wk);
      Guarded<T> y(x.size());
      Guarded<Acc<T>> rstd(s.rows * s.norms());
      kernels<T>(set).head_norm(queue(), s, y.data(), rstd.data(), from.data(), query_weight.data(),
                                key_weight.data());
      const Forward expected = reference(s, x, wq, wk);
      EXPECT_TRUE(close(y, expected.y, 8));
      EXPECT_TRUE(close(rstd, expected.rstd, 8));
    }
  });
}

// Against differences of the sum of dy * y, in double.
TEST(HeadNormGradient, IsThatOfTheNorm) {
  with_sets([](Isa set) {
    for (const HeadNormShape& s : {shapes[0], shapes[1], shapes[4], shapes[5]}) {
      auto x = random_values<double>(s.rows * s.qkv_cols(), 1);
      auto wq = random_values<double>(s.query_weights(), 2);
      auto wk = random_values<double>(s.key_weights(), 3);
      const auto dy = random_values<double>(x.size(), 4);
      const Forward at = reference(s, x, wq, wk);
      const auto start = random_values<double>(s.query_weights(), 5);
      Guarded<double> dx(x.size()), dwq(start);
      Guarded<double> dwk(std::vector<double>(start.begin(), start.begin() + s.key_weights()));
      Guarded<double> workspace(norm_grad_workspace(s.rows, s.query_weights()));
      kernels<double>(set).head_norm_grad(
          queue(), s, dx.data(), dwq.data(), dwk.data(), true, Guarded<double>(dy).data(),
          Guarded<double>(x).data(), Guarded<double>(at.rstd).data(), Guarded<double>(wq).data(),
          Guarded<double>(wk).data(), workspace.data());
      const auto slope = [&](double& element) {
        constexpr double step = 1e-6;
        const double kept = element;
        double difference = 0;
        for (const double sign : {1.0, -1.0}) {
          element = kept + sign * step;
          const Forward moved = reference(s, x, wq, wk);
          for (std::size_t i = 0; i < dy.size(); ++i) difference += sign * dy[i] * moved.y[i];
        }
        element = kept;
        return difference / (2 * step);
      };
      for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(dx.data()[i], slope(x[i]), 1e-6) << i;
      for (std::size_t i = 0; i < wq.size(); ++i)
        EXPECT_NEAR(dwq.data()[i] - start[i], slope(wq[i]), 1e-6) << i;
      for (std::size_t i = 0; i < wk.size(); ++i)
        EXPECT_NEAR(dwk.data()[i] - start[i], slope(wk[i]), 1e-6) << i;
    }
  });
}

}  // namespace
}  // namespace trireme::cpu
