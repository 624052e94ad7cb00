// Sums over rows and over whole tensors.
#include "backend/cpu/kernel_test.h"

namespace trireme::cpu {
namespace {

template <class T>
class Reduce : public testing::Test {};
TYPED_TEST_SUITE(Reduce, StorageTypes);

TYPED_TEST(Reduce, BiasGradSumsTheRows) {
  using T = TypeParam;
  using A = Acc<T>;
  with_sets([](Isa set) {
    for (const std::int64_t rows : {1, 3, 17, 1030}) {
      for (const std::int64_t cols : {1, 3, 17, 769}) {
        const auto dy = random_values<T>(rows * cols, 1), old = random_values<A>(cols, 2);
        for (const bool accumulate : {false, true}) {
          std::vector<double> want = accumulate ? old : std::vector<double>(cols, 0);
          for (std::int64_t i = 0; i < rows * cols; ++i) want[i % cols] += dy[i];
          const Guarded<T> grad(dy);
          Guarded<A> dbias(old), workspace(bias_grad_workspace(rows, cols));
          kernels<T>(set).bias_grad(dbias.data(), accumulate, grad.data(), rows, cols,
                                    workspace.data());
          EXPECT_TRUE(close(dbias, want, 32, std::sqrt(static_cast<double>(rows))));
          EXPECT_TRUE(workspace.intact());
        }
      }
    }
  });
}

TYPED_TEST(Reduce, SumOfSquares) {
  using A = Acc<TypeParam>;
  with_sets([](Isa set) {
    const auto& k = kernels<TypeParam>(set);
    EXPECT_EQ(k.sum_of_squares(nullptr, 0), 0);
    for (const std::int64_t count : {1, 3, 17, 769, 1000003}) {
      auto x = random_values<A>(count, 3);
      long double exact = 0;
      for (const long double value : x) exact += value * value;
      const auto want = static_cast<double>(exact);
      Guarded<A> input(x);
      EXPECT_NEAR(k.sum_of_squares(input.data(), count) / want, 1, 1e-13);
      input.data()[count / 2] = static_cast<A>(NAN);
      EXPECT_TRUE(std::isnan(k.sum_of_squares(input.data(), count)));
      input.data()[count / 2] = static_cast<A>(-INFINITY);
      EXPECT_EQ(k.sum_of_squares(input.data(), count), INFINITY);
    }
    // The squares of large floats do not overflow.
    const Guarded<A> large(std::vector<double>(5, 1e30));
    EXPECT_NEAR(k.sum_of_squares(large.data(), 5) / 5e60, 1, 1e-6);
  });
}

TYPED_TEST(Reduce, DoesNotDependOnTheThreadCount) {
  using T = TypeParam;
  using A = Acc<T>;
  const std::int64_t rows = 2001, cols = 257;
  const Guarded<T> dy(random_values<T>(rows * cols, 4));
  const Guarded<A> x(random_values<A>(rows * cols, 5));
  Guarded<A> first(cols), workspace(bias_grad_workspace(rows, cols));
  double first_sum = 0;
  with_thread_counts([&](int threads) {
    Guarded<A> dbias(cols);
    const auto& k = kernels<T>();
    k.bias_grad(dbias.data(), false, dy.data(), rows, cols, workspace.data());
    const double sum = k.sum_of_squares(x.data(), x.size());
    if (threads == 1) {
      first = dbias;
      first_sum = sum;
    }
    EXPECT_TRUE(first.same_bits(dbias));
    EXPECT_EQ(first_sum, sum);
  });
}

}  // namespace
}  // namespace trireme::cpu
