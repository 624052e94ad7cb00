// Softmax statistics and the gradient of the cross-entropy; and through them exp itself.
#include <algorithm>

#include "backend/cpu/kernel_test.h"

namespace trireme::cpu {
namespace {

constexpr StepBlock unscaled;

constexpr std::int32_t elsewhere = -1;  // a target of another rank

template <class T>
class CrossEntropy : public testing::Test {};
TYPED_TEST_SUITE(CrossEntropy, StorageTypes);

struct Sizes {
  std::int64_t rows, vocab, ld, first_id;
};
const Sizes sizes[] = {{1, 1, 1, 0},     {3, 3, 8, 0},          {2, 17, 17, 100},
                       {4, 769, 784, 0}, {3, 5003, 5120, 5003}, {2, 50257, 50304, 0}};

std::vector<std::int32_t> make_targets(const Sizes& s) {
  std::vector<std::int32_t> targets(s.rows);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    targets[r] = static_cast<std::int32_t>(s.first_id + (r * 7919) % s.vocab);
  }
  if (s.rows > 2) targets[1] = elsewhere;
  return targets;
}

TYPED_TEST(CrossEntropy, StatsMatchTheReference) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const Sizes& s : sizes) {
      auto x = random_values<T>(s.rows * s.ld, 1, 4);
      for (std::int64_t r = 0; r < s.rows; ++r) {  // padding must not count
        for (std::int64_t c = s.vocab; c < s.ld; ++c) x[r * s.ld + c] = 1000;
      }
      const auto targets = make_targets(s);
      const Guarded<T> logits(x);
      Guarded<Acc<T>> largest(s.rows), sum(s.rows), target(s.rows);
      kernels<T>(set).softmax_stats(queue(), largest.data(), sum.data(), target.data(),
                                    logits.data(), targets.data(), s.rows, s.vocab, s.ld,
                                    s.first_id);
      std::vector<double> want_sum(s.rows, 0);
      for (std::int64_t r = 0; r < s.rows; ++r) {
        const double* row = x.data() + r * s.ld;
        const double top = *std::max_element(row, row + s.vocab);
        EXPECT_EQ(largest[r], top);
        for (std::int64_t c = 0; c < s.vocab; ++c) want_sum[r] += std::exp(row[c] - top);
        const bool here = targets[r] != elsewhere;
        EXPECT_EQ(target[r], here ? row[targets[r] - s.first_id] : 0);
      }
      EXPECT_TRUE(close(sum, want_sum, 256));
      EXPECT_TRUE(largest.intact() && target.intact());
    }
  });
}

TYPED_TEST(CrossEntropy, GradientMatchesTheReference) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const Sizes& s : sizes) {
      const auto x = random_values<T>(s.rows * s.ld, 2, 3);
      const auto targets = make_targets(s);
      const double scale = 1024;
      std::vector<float> weights(s.rows, 0.25f);
      weights[0] = 1;
      std::vector<double> lse(s.rows), want(s.rows * s.ld, 0);
      for (std::int64_t r = 0; r < s.rows; ++r) {
        double sum = 0;
        for (std::int64_t c = 0; c < s.vocab; ++c) sum += std::exp(x[r * s.ld + c]);
        lse[r] = to_double(from_double<Acc<T>>(std::log(sum)));
        for (std::int64_t c = 0; c < s.vocab; ++c) {
          const double hot = targets[r] != elsewhere && c == targets[r] - s.first_id ? 1 : 0;
          want[r * s.ld + c] = (std::exp(x[r * s.ld + c] - lse[r]) - hot) * weights[r] * scale;
        }
      }
      Guarded<T> logits(x);
      const Guarded<Acc<T>> log_sums(lse);
      const StepBlock block{.grad_scale = scale};
      kernels<T>(set).cross_entropy_grad(queue(), logits.data(), log_sums.data(), targets.data(),
                                         weights.data(), &block, s.rows, s.vocab, s.ld, s.first_id);
      EXPECT_TRUE(close(logits, want, 32, scale)) << s.vocab;
    }
  });
}

TYPED_TEST(CrossEntropy, TheClassifierHasTheBitsOfTheThreeKernels) {
  using T = TypeParam;
  using A = Acc<T>;
  with_sets([](Isa set) {
    for (const Sizes& s : sizes) {
      const auto targets = make_targets(s);
      const std::vector<float> weights(s.rows, 0.25f);
      const StepBlock block{.grad_scale = 1024};
      Guarded<T> apart(random_values<T>(s.rows * s.ld, 2, 3)), together = apart;
      Guarded<A> largest(s.rows), sum(s.rows), target(s.rows), lse(s.rows), loss(s.rows),
          loss_together(s.rows);
      const Kernels<T>& k = kernels<T>(set);
      k.softmax_stats(queue(), largest.data(), sum.data(), target.data(), apart.data(),
                      targets.data(), s.rows, s.vocab, s.ld, s.first_id);
      k.token_loss(queue(), loss.data(), lse.data(), largest.data(), sum.data(), target.data(),
                   s.rows);
      k.cross_entropy_grad(queue(), apart.data(), lse.data(), targets.data(), weights.data(),
                           &block, s.rows, s.vocab, s.ld, s.first_id);
      k.classifier(queue(), together.data(), loss_together.data(), targets.data(), weights.data(),
                   &block, s.rows, s.vocab, s.ld, s.first_id);
      EXPECT_TRUE(together.same_bits(apart)) << s.vocab;
      EXPECT_TRUE(loss_together.same_bits(loss)) << s.vocab;
    }
  });
}

TYPED_TEST(CrossEntropy, NotFiniteLogitsShowInTheSum) {
  using T = TypeParam;
  const double inf = std::numeric_limits<double>::infinity();
  with_sets([&](Isa set) {
    const std::int64_t vocab = 3000, rows = 4;
    auto x = random_values<T>(rows * vocab, 3);
    x[0 * vocab + 2999] = NAN;
    x[1 * vocab + 5] = inf;
    for (std::int64_t c = 0; c < 2500; ++c)
      x[2 * vocab + c] = -inf;  // masked: a whole block of them
    x[3 * vocab + 7] = NAN;
    const std::vector<std::int32_t> targets(rows, 2700);
    const Guarded<T> logits(x);
    Guarded<Acc<T>> largest(rows), sum(rows), target(rows);
    kernels<T>(set).softmax_stats(queue(), largest.data(), sum.data(), target.data(), logits.data(),
                                  targets.data(), rows, vocab, vocab, 0);
    EXPECT_TRUE(std::isnan(sum[0]));
    EXPECT_TRUE(std::isnan(sum[1]));
    EXPECT_TRUE(std::isfinite(sum[2]) && sum[2] >= 1);
    EXPECT_TRUE(std::isnan(sum[3]));
  });
}

TYPED_TEST(CrossEntropy, DoesNotDependOnTheThreadCount) {
  using T = TypeParam;
  const std::int64_t rows = 9, vocab = 5001, ld = 5008;
  const Guarded<T> logits(random_values<T>(rows * ld, 4));
  const Guarded<Acc<T>> lse(std::vector<double>(rows, 9.0));
  const std::vector<std::int32_t> targets(rows, 77);
  const std::vector<float> weights(rows, 1.0f);
  Guarded<Acc<T>> first_sum(rows);
  Guarded<T> first_grad(rows * ld);
  with_thread_counts([&](int threads) {
    Guarded<Acc<T>> largest(rows), sum(rows), target(rows);
    Guarded<T> grad = logits;
    kernels<T>().softmax_stats(queue(), largest.data(), sum.data(), target.data(), logits.data(),
                               targets.data(), rows, vocab, ld, 0);
    kernels<T>().cross_entropy_grad(queue(), grad.data(), lse.data(), targets.data(),
                                    weights.data(), &unscaled, rows, vocab, ld, 0);
    if (threads == 1) {
      first_sum = sum;
      first_grad = grad;
    }
    EXPECT_TRUE(first_sum.same_bits(sum));
    EXPECT_TRUE(first_grad.same_bits(grad));
  });
}

// With log-sum-exp 0, weight 1 and no target here, the gradient is exp(logit).
std::vector<double> exp_of(Isa set, const std::vector<double>& x) {
  Guarded<float> logits(x);
  const float lse = 0, weight = 1;
  const std::int32_t target = elsewhere;
  kernels<float>(set).cross_entropy_grad(queue(), logits.data(), &lse, &target, &weight, &unscaled,
                                         1, logits.size(), logits.size(), 0);
  return logits.values();
}

TEST(Exp, StaysWithinTwoUnitsInTheLastPlaceOverTheWholeRange) {
  std::vector<double> x;
  for (double at = -103.9; at < 88.72; at += 1.0 / 2048) x.push_back(static_cast<float>(at));
  for (double at = 1e-30; at < 1; at *= 1.01) {
    x.push_back(static_cast<float>(at));
    x.push_back(static_cast<float>(-at));
  }
  with_sets([&](Isa set) {
    const auto y = exp_of(set, x);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp(x[i]);
      const double unit = std::max(std::ldexp(1.0, std::ilogb(want) - 23), 0x1p-149);
      worst = std::max(worst, std::abs(y[i] - want) / unit);
    }
    EXPECT_LT(worst, 2);
    RecordProperty(name_of(set), std::to_string(worst));
  });
}

TEST(Exp, SpecialValues) {
  const double inf = std::numeric_limits<double>::infinity();
  with_sets([&](Isa set) {
    const auto y = exp_of(set, {0, -0.0, inf, -inf, NAN, 88.8, 1e30, -104.5, -1e30, 1});
    EXPECT_EQ(y[0], 1);
    EXPECT_EQ(y[1], 1);
    EXPECT_EQ(y[2], inf);
    EXPECT_EQ(y[3], 0);
    EXPECT_TRUE(std::isnan(y[4]));
    EXPECT_EQ(y[5], inf);
    EXPECT_EQ(y[6], inf);
    EXPECT_EQ(y[7], 0);
    EXPECT_EQ(y[8], 0);
    EXPECT_FLOAT_EQ(y[9], std::exp(1.0));
  });
}

}  // namespace
}  // namespace trireme::cpu
