// Steps of the optimizers, and what whole matrices need, against the formulas in double.
#include "backend/cpu/kernel_test.h"

namespace trireme::cpu {
namespace {

template <class T>
class Optimizer : public testing::Test {};
TYPED_TEST_SUITE(Optimizer, StorageTypes);

StepBlock block_at(int t) {
  StepBlock block;
  block.lr = 1e-3;
  block.bias_correction1 = 1 - std::pow(0.9, t);
  block.bias_correction2 = 1 - std::pow(0.999, t);
  block.update_scale = 0.5;
  return block;
}

AdamStep step_with(const StepBlock& block, bool decoupled) {
  return {&block, 0.9, 0.999, 1e-8, 0.1, decoupled};
}

TYPED_TEST(Optimizer, AdamFollowsItsFormula) {
  using T = TypeParam;
  using A = Acc<T>;
  with_sets([](Isa set) {
    for (const std::int64_t count : {1, 3, 17, 769, 20000}) {
      for (const bool decoupled : {true, false}) {
        auto p = random_values<A>(count, 1);
        std::vector<double> m(count, 0), v(count, 0);
        Guarded<A> master(p), first(m), second(v);
        Guarded<T> compute(count);
        for (int t = 1; t <= 5; ++t) {
          const StepBlock block = block_at(t);
          const AdamStep s = step_with(block, decoupled);
          const auto grad = random_values<A>(count, 10 + t);
          for (std::int64_t i = 0; i < count; ++i) {
            double g = grad[i] * block.update_scale;
            if (!decoupled) g += s.weight_decay * p[i];
            m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
            v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
            if (decoupled) p[i] *= 1 - block.lr * s.weight_decay;
            p[i] -= block.lr * (m[i] / block.bias_correction1) /
                    (std::sqrt(v[i] / block.bias_correction2) + s.eps);
          }
          const Guarded<A> g(grad);
          kernels<T>(set).adam(queue(), s, master.data(), first.data(), second.data(), g.data(),
                               compute.data(), count);
        }
        EXPECT_TRUE(close(master, p, 16));
        EXPECT_TRUE(close(first, m, 16));
        EXPECT_TRUE(close(second, v, 16));
        // The compute copy is the master as the type rounds it.
        Guarded<T> cast(count);
        kernels<T>(set).cast_from_master(queue(), cast.data(), master.data(), count);
        EXPECT_TRUE(cast.same_bits(compute));
      }
    }
  });
}

TYPED_TEST(Optimizer, SgdFollowsItsFormula) {
  using T = TypeParam;
  using A = Acc<T>;
  with_sets([](Isa set) {
    for (const std::int64_t count : {1, 17, 769}) {
      auto p = random_values<A>(count, 2);
      std::vector<double> velocity(count, 0);
      Guarded<A> master(p), moving(velocity);
      Guarded<T> compute(count);
      StepBlock block;
      block.lr = 0.1;
      block.update_scale = 0.3;
      const SgdStep s{&block, 0.9, 0.01};
      for (int t = 0; t < 4; ++t) {
        const auto grad = random_values<A>(count, 20 + t);
        for (std::int64_t i = 0; i < count; ++i) {
          velocity[i] =
              s.momentum * velocity[i] + grad[i] * block.update_scale + s.weight_decay * p[i];
          p[i] -= block.lr * velocity[i];
        }
        const Guarded<A> g(grad);
        kernels<T>(set).sgd(queue(), s, master.data(), moving.data(), g.data(), compute.data(),
                            count);
      }
      EXPECT_TRUE(close(master, p, 32));
      EXPECT_TRUE(close(moving, velocity, 32));
      EXPECT_TRUE(compute.intact());
    }
  });
}

TYPED_TEST(Optimizer, LionFollowsItsFormula) {
  using T = TypeParam;
  using A = Acc<T>;
  with_sets([](Isa set) {
    for (const std::int64_t count : {1, 17, 769}) {
      auto p = random_values<A>(count, 2);
      std::vector<double> m(count, 0);
      Guarded<A> master(p), moment(m);
      Guarded<T> compute(count);
      StepBlock block;
      block.lr = 0.1;
      block.update_scale = 0.3;
      const LionStep s{&block, 0.9, 0.99, 0.01};
      for (int t = 0; t < 4; ++t) {
        auto grad = random_values<A>(count, 20 + t);
        if (t == 0) grad[0] = 0;  // a moment of nothing moves nothing
        for (std::int64_t i = 0; i < count; ++i) {
          const double g = grad[i] * block.update_scale, c = s.beta1 * m[i] + (1 - s.beta1) * g;
          p[i] = p[i] * (1 - block.lr * s.weight_decay) - block.lr * ((c > 0) - (c < 0));
          m[i] = s.beta2 * m[i] + (1 - s.beta2) * g;
        }
        const Guarded<A> g(grad);
        kernels<T>(set).lion(queue(), s, master.data(), moment.data(), g.data(), compute.data(),
                             count);
      }
      EXPECT_TRUE(close(master, p, 32));
      EXPECT_TRUE(close(moment, m, 32));
      Guarded<T> cast(count);
      kernels<T>(set).cast_from_master(queue(), cast.data(), master.data(), count);
      EXPECT_TRUE(cast.same_bits(compute));
    }
    const Guarded<A> grad({NAN, 1});
    Guarded<A> p({1, 1}), m({0, 0});
    const StepBlock block;
    kernels<T>(set).lion(queue(), {&block, 0.9, 0.99, 0}, p.data(), m.data(), grad.data(), nullptr,
                         2);
    EXPECT_TRUE(std::isnan(p[0]) && std::isnan(m[0]) && std::isfinite(p[1]));
  });
}

TYPED_TEST(Optimizer, DirectionsFollowTheirFormulas) {
  using T = TypeParam;
  using A = Acc<T>;
  with_sets([](Isa set) {
    const std::int64_t count = 769;
    StepBlock block;
    block.lr = 0.1;
    block.update_scale = 0.3;
    for (const bool nesterov : {false, true}) {
      const auto start = random_values<A>(count, 2), grad = random_values<A>(count, 3);
      std::vector<double> m(count), u(count), p(count);
      for (std::int64_t i = 0; i < count; ++i) {
        const double g = grad[i] * block.update_scale;
        m[i] = 0.95 * start[i] + 0.05 * g;
        u[i] = nesterov ? 0.95 * m[i] + 0.05 * g : m[i];
        p[i] = start[i] * (1 - 0.2 * 0.01) - 0.2 * u[i];
      }
      Guarded<A> moment(start), direction(grad), master(start);
      Guarded<T> compute(count);
      const auto& k = kernels<T>(set);
      k.momentum(queue(), {&block, 0.95, nesterov}, moment.data(), direction.data(), count);
      EXPECT_TRUE(close(moment, m));
      EXPECT_TRUE(close(direction, u));
      k.apply_direction(queue(), {&block, 2, 0.01}, master.data(), direction.data(), compute.data(),
                        count);
      EXPECT_TRUE(close(master, p));
      Guarded<T> cast(count);
      k.cast_from_master(queue(), cast.data(), master.data(), count);
      EXPECT_TRUE(cast.same_bits(compute));
    }
  });
}

TYPED_TEST(Optimizer, MatricesAreNormalizedScaledAndTransposed) {
  using T = TypeParam;
  using A = Acc<T>;
  with_sets([](Isa set) {
    const auto& k = kernels<T>(set);
    for (const auto& [rows, cols] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 70}, {67, 35}}) {
      const auto values = random_values<A>(rows * cols, 4);
      const Guarded<A> x(values);
      ExactSum squares;
      k.add_squares(queue(), &squares, x.data(), rows * cols, square_block);
      for (const bool transpose : {false, true}) {
        std::vector<double> expected(values.size());
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < cols; ++c)
            expected[transpose ? c * rows + r : r * cols + c] =
                values[r * cols + c] / (std::sqrt(squares.value()) + 1e-7);
        Guarded<T> y(rows * cols);
        k.normalize_matrix(queue(), y.data(), x.data(), &squares, rows, cols, transpose);
        EXPECT_TRUE(close(y, expected));
        std::vector<double> back(values.size());
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < cols; ++c)
            back[r * cols + c] = 3 * y[transpose ? c * rows + r : r * cols + c];
        Guarded<A> z(rows * cols);
        k.scale_matrix(queue(), z.data(), y.data(), 3, rows, cols, transpose);
        EXPECT_TRUE(close(z, back));
      }
      Guarded<T> y(values);
      std::vector<double> sum(values.size());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = 0.5 * y[i] - 2 * y[i];
      const Guarded<T> same = y;
      k.combine(queue(), y.data(), 0.5, same.data(), -2, rows * cols);
      EXPECT_TRUE(close(y, sum));
    }
  });
}

TYPED_TEST(Optimizer, ComputeCopyAndVelocityMayBeAbsent) {
  using T = TypeParam;
  using A = Acc<T>;
  with_sets([](Isa set) {
    const std::int64_t count = 100;
    const Guarded<A> start(random_values<A>(count, 3)), grad(random_values<A>(count, 4));
    const Guarded<A> zeros(std::vector<double>(count, 0));
    Guarded<A> a = start, b = start, m = zeros, v = zeros, m2 = zeros, v2 = zeros;
    Guarded<T> compute(count);
    const auto& k = kernels<T>(set);
    const StepBlock block = block_at(1);
    k.adam(queue(), step_with(block, true), a.data(), m.data(), v.data(), grad.data(),
           compute.data(), count);
    k.adam(queue(), step_with(block, true), b.data(), m2.data(), v2.data(), grad.data(), nullptr,
           count);
    EXPECT_TRUE(a.same_bits(b));
    a = b = start;
    m = zeros;
    const SgdStep s{&block, 0, 0.1};
    k.sgd(queue(), s, a.data(), m.data(), grad.data(), compute.data(), count);
    k.sgd(queue(), s, b.data(), nullptr, grad.data(), nullptr, count);
    EXPECT_TRUE(a.same_bits(b));
  });
}

// A step on two halves of a range equals a step on the whole: shards of the state give the same.
TYPED_TEST(Optimizer, DoesNotDependOnTheCutOrTheThreads) {
  using T = TypeParam;
  using A = Acc<T>;
  const std::int64_t count = 50021, cut = 20007;
  const Guarded<A> start(random_values<A>(count, 5)), grad(random_values<A>(count, 6));
  const Guarded<A> zeros(std::vector<double>(count, 0));
  Guarded<A> first = start;
  with_thread_counts([&](int threads) {
    Guarded<A> whole = start, parts = start, m = zeros, v = zeros, m2 = zeros, v2 = zeros;
    Guarded<T> compute(count);
    const StepBlock block = block_at(3);
    const AdamStep s = step_with(block, true);
    const auto& k = kernels<T>();
    k.adam(queue(), s, whole.data(), m.data(), v.data(), grad.data(), compute.data(), count);
    k.adam(queue(), s, parts.data(), m2.data(), v2.data(), grad.data(), nullptr, cut);
    k.adam(queue(), s, parts.data() + cut, m2.data() + cut, v2.data() + cut, grad.data() + cut,
           nullptr, count - cut);
    if (threads == 1) first = whole;
    EXPECT_TRUE(first.same_bits(whole) && first.same_bits(parts));
  });
}

TYPED_TEST(Optimizer, NotFiniteGradientsShow) {
  using T = TypeParam;
  using A = Acc<T>;
  with_sets([](Isa set) {
    const Guarded<A> grad({1, NAN, INFINITY});
    Guarded<A> p({1, 1, 1}), m({0, 0, 0}), v({0, 0, 0});
    const StepBlock block = block_at(1);
    kernels<T>(set).adam(queue(), step_with(block, true), p.data(), m.data(), v.data(), grad.data(),
                         nullptr, 3);
    EXPECT_TRUE(std::isfinite(p[0]));
    EXPECT_TRUE(std::isnan(p[1]) && std::isnan(p[2]));
  });
}

}  // namespace
}  // namespace trireme::cpu
