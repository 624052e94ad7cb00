// Steps of Adam, AdamW and SGD against the formulas in double.
#include "backend/cpu/kernel_test.h"

namespace trireme::cpu {
namespace {

template <class T>
class Optimizer : public testing::Test {};
TYPED_TEST_SUITE(Optimizer, StorageTypes);

AdamStep step_at(int t, bool decoupled) {
  AdamStep s{.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1};
  s.bias_correction1 = 1 - std::pow(s.beta1, t);
  s.bias_correction2 = 1 - std::pow(s.beta2, t);
  s.grad_scale = 0.5;
  s.decoupled = decoupled;
  return s;
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
          const AdamStep s = step_at(t, decoupled);
          const auto grad = random_values<A>(count, 10 + t);
          for (std::int64_t i = 0; i < count; ++i) {
            double g = grad[i] * s.grad_scale;
            if (!decoupled) g += s.weight_decay * p[i];
            m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
            v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
            if (decoupled) p[i] *= 1 - s.lr * s.weight_decay;
            p[i] -=
                s.lr * (m[i] / s.bias_correction1) / (std::sqrt(v[i] / s.bias_correction2) + s.eps);
          }
          const Guarded<A> g(grad);
          kernels<T>(set).adam(s, master.data(), first.data(), second.data(), g.data(),
                               compute.data(), count);
        }
        EXPECT_TRUE(close(master, p, 16));
        EXPECT_TRUE(close(first, m, 16));
        EXPECT_TRUE(close(second, v, 16));
        // The compute copy is the master as the type rounds it.
        Guarded<T> cast(count);
        kernels<T>(set).cast_from_master(cast.data(), master.data(), count);
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
      const SgdStep s{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .grad_scale = 0.3};
      for (int t = 0; t < 4; ++t) {
        const auto grad = random_values<A>(count, 20 + t);
        for (std::int64_t i = 0; i < count; ++i) {
          velocity[i] = s.momentum * velocity[i] + grad[i] * s.grad_scale + s.weight_decay * p[i];
          p[i] -= s.lr * velocity[i];
        }
        const Guarded<A> g(grad);
        kernels<T>(set).sgd(s, master.data(), moving.data(), g.data(), compute.data(), count);
      }
      EXPECT_TRUE(close(master, p, 32));
      EXPECT_TRUE(close(moving, velocity, 32));
      EXPECT_TRUE(compute.intact());
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
    k.adam(step_at(1, true), a.data(), m.data(), v.data(), grad.data(), compute.data(), count);
    k.adam(step_at(1, true), b.data(), m2.data(), v2.data(), grad.data(), nullptr, count);
    EXPECT_TRUE(a.same_bits(b));
    a = b = start;
    m = zeros;
    const SgdStep s{.lr = 0.1, .momentum = 0, .weight_decay = 0.1, .grad_scale = 1};
    k.sgd(s, a.data(), m.data(), grad.data(), compute.data(), count);
    k.sgd(s, b.data(), nullptr, grad.data(), nullptr, count);
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
    const AdamStep s = step_at(3, true);
    const auto& k = kernels<T>();
    k.adam(s, whole.data(), m.data(), v.data(), grad.data(), compute.data(), count);
    k.adam(s, parts.data(), m2.data(), v2.data(), grad.data(), nullptr, cut);
    k.adam(s, parts.data() + cut, m2.data() + cut, v2.data() + cut, grad.data() + cut, nullptr,
           count - cut);
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
    kernels<T>(set).adam(step_at(1, true), p.data(), m.data(), v.data(), grad.data(), nullptr, 3);
    EXPECT_TRUE(std::isfinite(p[0]));
    EXPECT_TRUE(std::isnan(p[1]) && std::isnan(p[2]));
  });
}

}  // namespace
}  // namespace trireme::cpu
