// LayerNorm and RMSNorm with the fused residual addition, and their gradients.
#include "backend/cpu/kernel_test.h"

namespace trireme::cpu {
namespace {

struct Stats {
  double mean, rstd;
};

Stats stats_of(const NormShape& shape, const double* x) {
  double mean = 0, square = 0;
  if (shape.kind == NormKind::layer_norm) {
    for (std::int64_t c = 0; c < shape.cols; ++c) mean += x[c];
    mean /= static_cast<double>(shape.cols);
  }
  for (std::int64_t c = 0; c < shape.cols; ++c) square += (x[c] - mean) * (x[c] - mean);
  return {mean, 1 / std::sqrt(square / static_cast<double>(shape.cols) + shape.eps)};
}

std::vector<double> reference(const NormShape& shape, const std::vector<double>& x,
                              const std::vector<double>& weight, const std::vector<double>& bias) {
  std::vector<double> y(x.size());
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const Stats s = stats_of(shape, x.data() + r * shape.cols);
    for (std::int64_t c = 0; c < shape.cols; ++c) {
      const std::int64_t i = r * shape.cols + c;
      y[i] = (x[i] - s.mean) * s.rstd * weight[c] + (bias.empty() ? 0 : bias[c]);
    }
  }
  return y;
}

std::vector<NormShape> shapes() {
  std::vector<NormShape> out;
  for (const NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
    out.push_back({{kind, 1e-5}, 1, 1});
    out.push_back({{kind, 1e-5}, 3, 3});
    out.push_back({{kind, 1e-5}, 17, 17});
    out.push_back({{kind, 1e-6}, 70, 769});
    out.push_back({{kind, 1e-5}, 2, 4096});
  }
  return out;
}

template <class T>
class Norm : public testing::Test {};
TYPED_TEST_SUITE(Norm, StorageTypes);

TYPED_TEST(Norm, MatchesTheReference) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const NormShape& shape : shapes()) {
      const std::int64_t count = shape.rows * shape.cols;
      // Far from zero, where a variance by the mean of squares would lose its digits.
      const auto x = random_values<T>(count, 1, 1, 30);
      const auto weight = random_values<T>(shape.cols, 2), bias = random_values<T>(shape.cols, 3);
      const bool centered = shape.kind == NormKind::layer_norm;
      const Guarded<T> input(x), w(weight), b(bias);
      Guarded<T> y(count);
      Guarded<Acc<T>> mean(shape.rows), rstd(shape.rows);
      kernels<T>(set).norm(queue(), shape, y.data(), centered ? mean.data() : nullptr, rstd.data(),
                           input.data(), w.data(), centered ? b.data() : nullptr, nullptr, nullptr,
                           Dropout{});
      // In double the reference itself adds up rounding errors.
      const double slack = shape.cols == 1 ? 1e5 : std::is_same_v<T, double> ? 4096 : 512;
      EXPECT_TRUE(
          close(y, reference(shape, x, weight, centered ? bias : std::vector<double>{}), slack))
          << shape.cols;
      for (std::int64_t r = 0; r < shape.rows && shape.cols > 1; ++r) {
        const Stats s = stats_of(shape, x.data() + r * shape.cols);
        EXPECT_NEAR(rstd[r] / s.rstd, 1, 1e-5);
        if (centered) {
          EXPECT_NEAR(mean[r], s.mean, 1e-5);
        }
      }
    }
  });
}

TYPED_TEST(Norm, AddsTheResidualFirst) {
  using T = TypeParam;
  with_sets([](Isa set) {
    const NormShape shape = {{NormKind::layer_norm, 1e-5}, 6, 301};
    const std::int64_t count = shape.rows * shape.cols;
    const Guarded<T> x(random_values<T>(count, 4)), delta(random_values<T>(count, 5));
    const Guarded<T> w(random_values<T>(shape.cols, 6)), b(random_values<T>(shape.cols, 7));
    const std::int64_t samples[] = {11, 4};
    constexpr StepBlock block{.seed = 5, .step = 9};
    Dropout dropped{{.probability = 0.3f, .site = 2}, &block, samples};
    dropped.seq_length = 3;
    for (const Dropout& dropout : {Dropout{}, dropped}) {
      // The fused form equals the addition followed by the norm, bit for bit.
      Guarded<T> sum(count), y(count), want_sum(count), want(count);
      Guarded<Acc<T>> mean(shape.rows), rstd(shape.rows), want_mean(shape.rows),
          want_rstd(shape.rows);
      const auto& k = kernels<T>(set);
      k.norm(queue(), shape, y.data(), mean.data(), rstd.data(), x.data(), w.data(), b.data(),
             sum.data(), delta.data(), dropout);
      k.add(queue(), want_sum.data(), x.data(), delta.data(), shape.rows, shape.cols, dropout);
      k.norm(queue(), shape, want.data(), want_mean.data(), want_rstd.data(), want_sum.data(),
             w.data(), b.data(), nullptr, nullptr, Dropout{});
      EXPECT_TRUE(sum.same_bits(want_sum));
      EXPECT_TRUE(y.same_bits(want));
      EXPECT_TRUE(mean.same_bits(want_mean) && rstd.same_bits(want_rstd));
      // In place: the sum may take the place of either operand.
      Guarded<T> over_x = x, over_delta = delta;
      k.norm(queue(), shape, y.data(), mean.data(), rstd.data(), over_x.data(), w.data(), b.data(),
             over_x.data(), delta.data(), dropout);
      k.norm(queue(), shape, y.data(), mean.data(), rstd.data(), x.data(), w.data(), b.data(),
             over_delta.data(), over_delta.data(), dropout);
      EXPECT_TRUE(over_x.same_bits(want_sum) && over_delta.same_bits(want_sum));
      EXPECT_TRUE(y.same_bits(want));
    }
  });
}

TYPED_TEST(Norm, WorksInPlaceAndWithoutStatistics) {
  using T = TypeParam;
  with_sets([](Isa set) {
    const NormShape shape = {{NormKind::layer_norm, 1e-5}, 4, 99};
    const Guarded<T> x(random_values<T>(4 * 99, 26)), w(random_values<T>(99, 27));
    Guarded<T> y(4 * 99), in_place = x;
    Guarded<Acc<T>> mean(4), rstd(4);
    const auto& k = kernels<T>(set);
    k.norm(queue(), shape, y.data(), mean.data(), rstd.data(), x.data(), w.data(), nullptr, nullptr,
           nullptr, Dropout{});
    k.norm(queue(), shape, in_place.data(), nullptr, nullptr, in_place.data(), w.data(), nullptr,
           nullptr, nullptr, Dropout{});
    EXPECT_TRUE(y.same_bits(in_place));
  });
}

struct Grads {
  std::vector<double> dx, dweight, dbias;
};

Grads reference_grads(const NormShape& shape, const std::vector<double>& dy,
                      const std::vector<double>& x, const std::vector<double>& weight) {
  Grads g{std::vector<double>(x.size()), std::vector<double>(shape.cols, 0),
          std::vector<double>(shape.cols, 0)};
  const bool centered = shape.kind == NormKind::layer_norm;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const std::int64_t at = r * shape.cols;
    const Stats s = stats_of(shape, x.data() + at);
    double mean = 0, direction = 0;
    for (std::int64_t c = 0; c < shape.cols; ++c) {
      const double unit = (x[at + c] - s.mean) * s.rstd, grad = dy[at + c] * weight[c];
      mean += centered ? grad / static_cast<double>(shape.cols) : 0;
      direction += grad * unit / static_cast<double>(shape.cols);
      g.dweight[c] += dy[at + c] * unit;
      g.dbias[c] += dy[at + c];
    }
    for (std::int64_t c = 0; c < shape.cols; ++c) {
      const double unit = (x[at + c] - s.mean) * s.rstd;
      g.dx[at + c] = (dy[at + c] * weight[c] - mean - unit * direction) * s.rstd;
    }
  }
  return g;
}

// The kernel's gradients for inputs given in double.
template <class T>
struct NormGradRun {
  Guarded<T> dx;
  Guarded<Acc<T>> dweight, dbias, workspace;

  NormGradRun(const NormShape& shape, Isa set, const std::vector<double>& dy,
              const std::vector<double>& x, const std::vector<double>& weight, const T* dres,
              bool accumulate)
      : dx(shape.rows * shape.cols),
        dweight(random_values<Acc<T>>(shape.cols, 20)),
        dbias(random_values<Acc<T>>(shape.cols, 21)),
        workspace(norm_grad_workspace(shape.rows, shape.cols)) {
    const bool centered = shape.kind == NormKind::layer_norm;
    std::vector<double> means, rstds;
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      const Stats s = stats_of(shape, x.data() + r * shape.cols);
      means.push_back(s.mean);
      rstds.push_back(s.rstd);
    }
    const Guarded<T> grad(dy), input(x), w(weight);
    const Guarded<Acc<T>> mean(means), rstd(rstds);
    kernels<T>(set).norm_grad(queue(), shape,
                              {.dx = dx.data(),
                               .dweight = dweight.data(),
                               .dbias = centered ? dbias.data() : nullptr,
                               .accumulate = accumulate,
                               .dy = grad.data(),
                               .x = input.data(),
                               .mean = centered ? mean.data() : nullptr,
                               .rstd = rstd.data(),
                               .weight = w.data(),
                               .dres = dres,
                               .workspace = workspace.data()});
  }
};

TYPED_TEST(Norm, GradientMatchesTheReference) {
  using T = TypeParam;
  with_sets([](Isa set) {
    for (const NormShape& shape : shapes()) {
      const std::int64_t count = shape.rows * shape.cols;
      const auto x = random_values<T>(count, 8, 1, 0.5), dy = random_values<T>(count, 9);
      const auto weight = random_values<T>(shape.cols, 10), res = random_values<T>(count, 11);
      const Guarded<T> dres(res);
      const bool centered = shape.kind == NormKind::layer_norm;
      for (const bool accumulate : {false, true}) {
        const NormGradRun<T> run(shape, set, dy, x, weight, accumulate ? dres.data() : nullptr,
                                 accumulate);
        Grads want = reference_grads(shape, dy, x, weight);
        if (accumulate) {
          const auto old_weight = random_values<Acc<T>>(shape.cols, 20);
          const auto old_bias = random_values<Acc<T>>(shape.cols, 21);
          for (std::int64_t i = 0; i < count; ++i) want.dx[i] += res[i];
          for (std::int64_t c = 0; c < shape.cols; ++c) {
            want.dweight[c] += old_weight[c];
            want.dbias[c] += old_bias[c];
          }
        }
        // One column of LayerNorm divides by the root of eps alone.
        const double magnitude = shape.cols == 1 ? 1e4 : 10;
        EXPECT_TRUE(close(run.dx, want.dx, 32, magnitude)) << shape.cols;
        EXPECT_TRUE(close(run.dweight, want.dweight, 64, magnitude)) << shape.cols;
        if (centered) {
          EXPECT_TRUE(close(run.dbias, want.dbias, 64, 10));
        }
        EXPECT_TRUE(run.workspace.intact());
      }
    }
  });
}

TYPED_TEST(Norm, GradientWorksInPlaceOfTheResidualsGradient) {
  using T = TypeParam;
  with_sets([](Isa set) {
    const NormShape shape = {{NormKind::rms_norm, 1e-5}, 9, 131};
    const std::int64_t count = shape.rows * shape.cols;
    const Guarded<T> x(random_values<T>(count, 12)), dy(random_values<T>(count, 13));
    const Guarded<T> w(random_values<T>(shape.cols, 14)), dres(random_values<T>(count, 15));
    const Guarded<Acc<T>> rstd(std::vector<double>(shape.rows, 1.1));
    Guarded<Acc<T>> dw(shape.cols), workspace(norm_grad_workspace(shape.rows, shape.cols));
    Guarded<T> dx(count), in_place = dres;
    NormGradOperands<T> o{.dx = dx.data(),
                          .dweight = dw.data(),
                          .dy = dy.data(),
                          .x = x.data(),
                          .rstd = rstd.data(),
                          .weight = w.data(),
                          .dres = dres.data(),
                          .workspace = workspace.data()};
    kernels<T>(set).norm_grad(queue(), shape, o);
    o.dx = in_place.data();
    o.dres = in_place.data();
    kernels<T>(set).norm_grad(queue(), shape, o);
    EXPECT_TRUE(dx.same_bits(in_place));
  });
}

// Biases' gradients that are made in passing have the bits of bias_grad, in place too.
TYPED_TEST(Norm, GradientSumsRowsAsBiasGrad) {
  using T = TypeParam;
  using A = Acc<T>;
  with_sets([](Isa set) {
    const NormShape shape = {{NormKind::rms_norm, 1e-5}, 39, 131};
    const std::int64_t rows = shape.rows, cols = shape.cols, count = rows * cols;
    const Guarded<T> x(random_values<T>(count, 12)), dy(random_values<T>(count, 13));
    const Guarded<T> w(random_values<T>(cols, 14)), dres(random_values<T>(count, 15));
    const Guarded<A> rstd(std::vector<double>(rows, 1.1));
    const auto old = random_values<A>(cols, 16);
    for (const bool accumulate : {false, true}) {
      Guarded<A> dw(cols), dx_sum(old), dres_sum(old), want_dx(old), want_dres(old);
      Guarded<A> workspace(norm_grad_workspace(rows, cols, 3));
      Guarded<T> dx = dres;
      const auto& k = kernels<T>(set);
      NormGradOperands<T> o{.dx = dx.data(),
                            .dweight = dw.data(),
                            .dx_sum = dx_sum.data(),
                            .accumulate = accumulate,
                            .dy = dy.data(),
                            .x = x.data(),
                            .rstd = rstd.data(),
                            .weight = w.data(),
                            .dres = dx.data(),
                            .workspace = workspace.data()};
      k.norm_grad(queue(), shape, o);
      k.bias_grad(queue(), want_dx.data(), accumulate, dx.data(), rows, cols, workspace.data());
      EXPECT_TRUE(dx_sum.same_bits(want_dx));
      dx = dres;
      o.dx_sum = nullptr;
      o.dres_sum = dres_sum.data();
      k.norm_grad(queue(), shape, o);
      k.bias_grad(queue(), want_dres.data(), accumulate, dres.data(), rows, cols, workspace.data());
      EXPECT_TRUE(dres_sum.same_bits(want_dres));
      EXPECT_TRUE(workspace.intact());
    }
  });
}

TEST(NormGradient, AgreesWithFiniteDifferences) {
  with_sets([](Isa set) {
    for (const NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
      const NormShape shape = {{kind, 1e-5}, 2, 5};
      const std::int64_t count = shape.rows * shape.cols;
      auto x = random_values<double>(count, 16), weight = random_values<double>(shape.cols, 17);
      auto bias = random_values<double>(shape.cols, 18);
      const auto dy = random_values<double>(count, 19);
      const auto loss = [&] {
        std::vector<double> y(count), mean(shape.rows), rstd(shape.rows);
        kernels<double>(set).norm(queue(), shape, y.data(), mean.data(), rstd.data(), x.data(),
                                  weight.data(), bias.data(), nullptr, nullptr, Dropout{});
        double sum = 0;
        for (std::int64_t i = 0; i < count; ++i) sum += y[i] * dy[i];
        return sum;
      };
      const NormGradRun<double> run(shape, set, dy, x, weight, nullptr, false);
      for (std::int64_t i = 0; i < count; ++i) EXPECT_NEAR(run.dx[i], slope(x[i], loss), 1e-7);
      for (std::int64_t c = 0; c < shape.cols; ++c) {
        EXPECT_NEAR(run.dweight[c], slope(weight[c], loss), 1e-7);
        if (kind == NormKind::layer_norm) {
          EXPECT_NEAR(run.dbias[c], slope(bias[c], loss), 1e-7);
        }
      }
    }
  });
}

TYPED_TEST(Norm, NotFiniteRowsSpoilOnlyThemselves) {
  using T = TypeParam;
  with_sets([](Isa set) {
    const NormShape shape = {{NormKind::layer_norm, 1e-5}, 3, 40};
    auto x = random_values<T>(120, 22);
    x[50] = NAN;
    const Guarded<T> input(x), ones(std::vector<double>(40, 1.0));
    Guarded<T> y(120);
    Guarded<Acc<T>> mean(3), rstd(3);
    kernels<T>(set).norm(queue(), shape, y.data(), mean.data(), rstd.data(), input.data(),
                         ones.data(), nullptr, nullptr, nullptr, Dropout{});
    for (std::int64_t i = 0; i < 120; ++i) EXPECT_EQ(std::isnan(y[i]), i / 40 == 1);
  });
}

TYPED_TEST(Norm, DoesNotDependOnTheThreadCount) {
  using T = TypeParam;
  const NormShape shape = {{NormKind::layer_norm, 1e-5}, 1000, 131};
  const std::int64_t count = shape.rows * shape.cols;
  const auto x = random_values<T>(count, 23), dy = random_values<T>(count, 24);
  const auto weight = random_values<T>(shape.cols, 25);
  const NormGradRun<T> first(shape, isa(), dy, x, weight, nullptr, true);
  with_thread_counts([&](int) {
    const NormGradRun<T> run(shape, isa(), dy, x, weight, nullptr, true);
    EXPECT_TRUE(run.dx.same_bits(first.dx));
    EXPECT_TRUE(run.dweight.same_bits(first.dweight) && run.dbias.same_bits(first.dbias));
  });
}

}  // namespace
}  // namespace trireme::cpu
