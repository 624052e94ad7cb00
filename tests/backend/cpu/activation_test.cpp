// Activations against the C library in double: values, gradients, special values, aliasing.
#include <algorithm>

#include "backend/cpu/kernel_test.h"

namespace trireme::cpu {
namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double reference(ActivationKind kind, double x) {
  switch (kind) {
    case ActivationKind::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case ActivationKind::gelu_erf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case ActivationKind::silu:
      return x * sigmoid(x);
    case ActivationKind::squared_relu:
      return x > 0 ? x * x : 0;
    case ActivationKind::tanh:
      return std::tanh(x);
    case ActivationKind::swiglu:
    case ActivationKind::geglu:
      break;
  }
  return NAN;
}

double reference_slope(ActivationKind kind, double x) {
  double at = x;
  return slope(
      at, [&] { return reference(kind, at); }, 1e-4);
}

constexpr ActivationKind plain_kinds[] = {ActivationKind::gelu_tanh, ActivationKind::gelu_erf,
                                          ActivationKind::silu, ActivationKind::squared_relu,
                                          ActivationKind::tanh};

template <class T>
class Activation : public testing::Test {};
TYPED_TEST_SUITE(Activation, StorageTypes);

TYPED_TEST(Activation, MatchesTheReference) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const ActivationKind kind : plain_kinds) {
      for (const std::int64_t count : {1, 3, 17, 769, 40000}) {
        const auto x = random_values<T>(count, 1, 3);
        const auto dy = random_values<T>(count, 2);
        std::vector<double> want(count), want_grad(count);
        for (std::int64_t i = 0; i < count; ++i) {
          want[i] = reference(kind, x[i]);
          want_grad[i] = dy[i] * reference_slope(kind, x[i]);
        }
        const Guarded<T> input(x), grad(dy);
        Guarded<T> y(count), dx(count);
        kernels<T>(set).activation(queue(), kind, y.data(), input.data(), 1, count);
        kernels<T>(set).activation_grad(
            queue(), kind, {.dx = dx.data(), .dy = grad.data(), .x = input.data()}, 1, count);
        EXPECT_TRUE(close(y, want)) << static_cast<int>(kind);
        // The reference's own differences are good to about 1e-7.
        const double slack = std::is_same_v<T, double> ? 1e-6 / rounding<double> : 64;
        EXPECT_TRUE(close(dx, want_grad, slack)) << static_cast<int>(kind);
      }
    }
  });
}

TYPED_TEST(Activation, SwigluMatchesTheReference) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const std::int64_t cols : {1, 3, 17, 769}) {
      const std::int64_t rows = 5;
      const auto x = random_values<T>(rows * 2 * cols, 3, 2);
      const auto dy = random_values<T>(rows * cols, 4);
      std::vector<double> want(rows * cols), want_grad(rows * 2 * cols);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
          const double gate = x[r * 2 * cols + c], up = x[r * 2 * cols + cols + c];
          const double s = sigmoid(gate), g = dy[r * cols + c];
          want[r * cols + c] = gate * s * up;
          want_grad[r * 2 * cols + c] = g * up * s * (1 + gate * (1 - s));
          want_grad[r * 2 * cols + cols + c] = g * gate * s;
        }
      }
      const Guarded<T> input(x), grad(dy);
      Guarded<T> y(rows * cols), dx(rows * 2 * cols);
      kernels<T>(set).activation(queue(), ActivationKind::swiglu, y.data(), input.data(), rows,
                                 cols);
      kernels<T>(set).activation_grad(queue(), ActivationKind::swiglu,
                                      {.dx = dx.data(), .dy = grad.data(), .x = input.data()}, rows,
                                      cols);
      EXPECT_TRUE(close(y, want));
      EXPECT_TRUE(close(dx, want_grad, 64));
    }
  });
}

TYPED_TEST(Activation, GegluMatchesTheReference) {
  using T = TypeParam;
  constexpr ActivationKind gelu = ActivationKind::gelu_tanh;
  with_sets([](Isa set) {
    for (const std::int64_t cols : {3, 769}) {
      const std::int64_t rows = 5;
      const auto x = random_values<T>(rows * 2 * cols, 3, 2);
      const auto dy = random_values<T>(rows * cols, 4);
      std::vector<double> want(rows * cols), want_grad(rows * 2 * cols);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
          const double gate = x[r * 2 * cols + c], up = x[r * 2 * cols + cols + c];
          const double g = dy[r * cols + c];
          want[r * cols + c] = reference(gelu, gate) * up;
          want_grad[r * 2 * cols + c] = g * up * reference_slope(gelu, gate);
          want_grad[r * 2 * cols + cols + c] = g * reference(gelu, gate);
        }
      }
      const Guarded<T> input(x), grad(dy);
      Guarded<T> y(rows * cols), dx(rows * 2 * cols);
      const auto& k = kernels<T>(set);
      k.activation(queue(), ActivationKind::geglu, y.data(), input.data(), rows, cols);
      k.activation_grad(queue(), ActivationKind::geglu,
                        {.dx = dx.data(), .dy = grad.data(), .x = input.data()}, rows, cols);
      const double slack = std::is_same_v<T, double> ? 1e-6 / rounding<double> : 64;
      EXPECT_TRUE(close(y, want));
      EXPECT_TRUE(close(dx, want_grad, slack));
    }
  });
}

TYPED_TEST(Activation, WorksInPlace) {
  using T = TypeParam;
  with_sets([](Isa set) {
    const std::int64_t count = 1003;
    const Guarded<T> input(random_values<T>(count, 5)), grad(random_values<T>(count, 6));
    for (const ActivationKind kind : plain_kinds) {
      Guarded<T> y(count), dx(count), in_place = input, over_grad = grad, over_input = input;
      const auto& k = kernels<T>(set);
      k.activation(queue(), kind, y.data(), input.data(), 1, count);
      k.activation(queue(), kind, in_place.data(), in_place.data(), 1, count);
      EXPECT_TRUE(y.same_bits(in_place));
      k.activation_grad(queue(), kind, {.dx = dx.data(), .dy = grad.data(), .x = input.data()}, 1,
                        count);
      k.activation_grad(queue(), kind,
                        {.dx = over_grad.data(), .dy = over_grad.data(), .x = input.data()}, 1,
                        count);
      k.activation_grad(queue(), kind,
                        {.dx = over_input.data(), .dy = grad.data(), .x = over_input.data()}, 1,
                        count);
      EXPECT_TRUE(dx.same_bits(over_grad));
      EXPECT_TRUE(dx.same_bits(over_input));
    }
  });
}

TYPED_TEST(Activation, LargeAndNotFiniteInputs) {
  using T = TypeParam;
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> x = {NAN, inf, 128, -128, 0, -0.0};
  with_sets([&](Isa set) {
    for (const ActivationKind kind : plain_kinds) {
      if (kind == ActivationKind::tanh) continue;  // below
      const Guarded<T> input(x), ones(std::vector<double>(x.size(), 1.0));
      Guarded<T> y(input.size()), dx(input.size());
      kernels<T>(set).activation(queue(), kind, y.data(), input.data(), 1, input.size());
      kernels<T>(set).activation_grad(
          queue(), kind, {.dx = dx.data(), .dy = ones.data(), .x = input.data()}, 1, input.size());
      const bool squared = kind == ActivationKind::squared_relu;
      EXPECT_TRUE(std::isnan(y[0]) && std::isnan(dx[0]));
      EXPECT_EQ(y[1], inf);
      EXPECT_EQ(y[2], squared ? 16384 : 128);
      EXPECT_NEAR(y[3], 0, 1e-40);
      EXPECT_EQ(dx[2], squared ? 256 : 1);
      EXPECT_NEAR(dx[3], 0, 1e-40);
      EXPECT_EQ(y[4], 0);
      EXPECT_EQ(dx[4], squared ? 0 : 0.5);
    }
  });
}

TYPED_TEST(Activation, TanhIsBounded) {
  using T = TypeParam;
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> x = {NAN, inf, -inf, 128, -128, 0};
  const double want[] = {NAN, 1, -1, 1, -1, 0}, slopes[] = {NAN, 0, 0, 0, 0, 1};
  with_sets([&](Isa set) {
    const Guarded<T> input(x), ones(std::vector<double>(x.size(), 1.0));
    Guarded<T> y(input.size()), dx(input.size());
    kernels<T>(set).activation(queue(), ActivationKind::tanh, y.data(), input.data(), 1,
                               input.size());
    kernels<T>(set).activation_grad(queue(), ActivationKind::tanh,
                                    {.dx = dx.data(), .dy = ones.data(), .x = input.data()}, 1,
                                    input.size());
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(dx[0]));
    for (int i = 1; i < 6; ++i) {
      EXPECT_EQ(y[i], want[i]) << i;
      EXPECT_EQ(dx[i], slopes[i]) << i;
    }
  });
}

// The worst error, relative to the exact value, of gelu_erf in float: its tail is the one that a
// careless erf loses.
TEST(ActivationAccuracy, GeluErfKeepsRelativeAccuracyInItsTail) {
  std::vector<double> x;
  for (double at = -13; at < 8; at += 1.0 / 4096) x.push_back(static_cast<float>(at));
  with_sets([&](Isa set) {
    const Guarded<float> input(x);
    Guarded<float> y(input.size());
    kernels<float>(set).activation(queue(), ActivationKind::gelu_erf, y.data(), input.data(), 1,
                                   input.size());
    double worst = 0;
    for (std::int64_t i = 0; i < input.size(); ++i) {
      if (x[i] == 0) continue;
      const double want = reference(ActivationKind::gelu_erf, x[i]);
      if (std::abs(want) < 1e-37) continue;  // near the smallest numbers accuracy ends
      worst = std::max(worst, std::abs(y[i] / want - 1));
    }
    EXPECT_LT(worst, 8 * 0x1p-24);
    RecordProperty(name_of(set), std::to_string(worst * 0x1p24));
  });
}

TYPED_TEST(Activation, DoesNotDependOnTheThreadCount) {
  using T = TypeParam;
  const std::int64_t rows = 64, cols = 1001;
  const Guarded<T> input(random_values<T>(rows * 2 * cols, 7));
  Guarded<T> first(rows * cols);
  with_thread_counts([&](int threads) {
    Guarded<T> y(rows * cols);
    kernels<T>().activation(queue(), ActivationKind::swiglu, y.data(), input.data(), rows, cols);
    if (threads == 1) first = y;
    EXPECT_TRUE(first.same_bits(y));
  });
}

// The gradient of a bias that is made in passing has the bits of bias_grad.
TYPED_TEST(Activation, GradientSumsRowsAsBiasGrad) {
  using T = TypeParam;
  using A = Acc<T>;
  with_sets([](Isa set) {
    const auto& k = kernels<T>(set);
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{39, 131}, {1, 64}}) {
      const std::int64_t count = rows * cols;
      const Guarded<T> x(random_values<T>(count, 1)), dy(random_values<T>(count, 2));
      const auto old = random_values<A>(cols, 3);
      for (const ActivationKind kind :
           {ActivationKind::gelu_tanh, ActivationKind::gelu_erf, ActivationKind::silu,
            ActivationKind::squared_relu, ActivationKind::tanh}) {
        for (const bool accumulate : {false, true}) {
          Guarded<T> dx(count), want(count);
          Guarded<A> dbias(old), want_dbias(old), workspace(bias_grad_workspace(rows, cols));
          k.activation_grad(queue(), kind,
                            {.dx = dx.data(),
                             .dy = dy.data(),
                             .x = x.data(),
                             .dbias = dbias.data(),
                             .accumulate = accumulate,
                             .workspace = workspace.data()},
                            rows, cols);
          EXPECT_TRUE(workspace.intact());
          k.activation_grad(queue(), kind, {.dx = want.data(), .dy = dy.data(), .x = x.data()},
                            rows, cols);
          k.bias_grad(queue(), want_dbias.data(), accumulate, want.data(), rows, cols,
                      workspace.data());
          EXPECT_TRUE(dx.same_bits(want));
          EXPECT_TRUE(dbias.same_bits(want_dbias));
        }
      }
    }
  });
}

}  // namespace
}  // namespace trireme::cpu
