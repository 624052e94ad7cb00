// Sums over rows and over whole tensors.
#include "backend/cpu/kernel_test.h"
#include "base/exact_sum.h"

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
          kernels<T>(set).bias_grad(queue(), dbias.data(), accumulate, grad.data(), rows, cols,
                                    workspace.data());
          EXPECT_TRUE(close(dbias, want, 32, std::sqrt(static_cast<double>(rows))));
          EXPECT_TRUE(workspace.intact());
        }
      }
    }
  });
}

template <class T>
double sum_of_squares(const Kernels<T>& k, const Acc<T>* x, std::int64_t count) {
  ExactSum sum;
  k.add_squares(queue(), &sum, x, count, square_block);
  return sum.value();
}

TYPED_TEST(Reduce, SumOfSquares) {
  using A = Acc<TypeParam>;
  with_sets([](Isa set) {
    const auto& k = kernels<TypeParam>(set);
    EXPECT_EQ(sum_of_squares<TypeParam>(k, nullptr, 0), 0);
    for (const std::int64_t count : {1, 3, 17, 769, 1000003}) {
      auto x = random_values<A>(count, 3);
      long double exact = 0;
      for (const long double value : x) exact += value * value;
      const auto want = static_cast<double>(exact);
      Guarded<A> input(x);
      EXPECT_NEAR(sum_of_squares<TypeParam>(k, input.data(), count) / want, 1, 1e-13);
      input.data()[count / 2] = static_cast<A>(NAN);
      EXPECT_TRUE(std::isnan(sum_of_squares<TypeParam>(k, input.data(), count)));
      input.data()[count / 2] = static_cast<A>(-INFINITY);
      EXPECT_TRUE(std::isnan(sum_of_squares<TypeParam>(k, input.data(), count)));
    }
    // The squares of large floats do not overflow.
    const Guarded<A> large(std::vector<double>(5, 1e30));
    EXPECT_NEAR(sum_of_squares<TypeParam>(k, large.data(), 5) / 5e60, 1, 1e-6);
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
    k.bias_grad(queue(), dbias.data(), false, dy.data(), rows, cols, workspace.data());
    const double sum = sum_of_squares<TypeParam>(k, x.data(), x.size());
    if (threads == 1) {
      first = dbias;
      first_sum = sum;
    }
    EXPECT_TRUE(first.same_bits(dbias));
    EXPECT_EQ(first_sum, sum);
  });
}

// Each block of 256 in an order of its own, then without rounding: any cut at blocks gives the
// same.
TYPED_TEST(Reduce, SquaresOfPartsAddUpExactly) {
  using A = Acc<TypeParam>;
  const std::int64_t count = 256 * 300 + 77;
  const Guarded<A> x(random_values<A>(count, 6));
  const auto& k = kernels<TypeParam>();
  ExactSum parts;
  for (std::int64_t begin = 0; begin < count; begin += 256 * 7)
    k.add_squares(queue(), &parts, x.data() + begin, std::min<std::int64_t>(256 * 7, count - begin),
                  square_block);
  EXPECT_EQ(parts.value(), sum_of_squares<TypeParam>(k, x.data(), count));
  // Shorter blocks, as where leaves cut a parameter.
  ExactSum blocks, alone;
  k.add_squares(queue(), &blocks, x.data(), count, 32);
  for (std::int64_t begin = 0; begin < count; begin += 32)
    k.add_squares(queue(), &alone, x.data() + begin, std::min<std::int64_t>(32, count - begin), 32);
  EXPECT_EQ(blocks.value(), alone.value());
}

TYPED_TEST(Reduce, LossesAreWeighted) {
  using A = Acc<TypeParam>;
  const std::vector<A> losses = {A{2}, static_cast<A>(NAN), A{3}, A{5}};
  const std::vector<float> weights = {1.f, 0.f, 0.5f, 2.f};
  ExactSum loss, tokens;
  const auto& k = kernels<TypeParam>();
  k.add_losses(queue(), &loss, &tokens, losses.data(), weights.data(), 4);
  EXPECT_EQ(loss.value(), 13.5);
  EXPECT_EQ(tokens.value(), 3.5);
  k.add_losses(queue(), &loss, &tokens, losses.data() + 2, nullptr, 2);
  EXPECT_EQ(loss.value(), 21.5);
  EXPECT_EQ(tokens.value(), 5.5);
}

}  // namespace
}  // namespace trireme::cpu
