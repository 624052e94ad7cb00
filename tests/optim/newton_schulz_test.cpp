// Tests of Newton-Schulz iterations against the formula in double, on wide, tall and square
// matrices, and of their purpose: an orthogonal factor.
#include "optim/newton_schulz.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/cpu/device.h"
#include "named.h"

namespace trireme {
namespace {

using Matrix = std::vector<double>;  // row-major

Matrix sample(std::int64_t rows, std::int64_t cols) {
  Matrix x(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(static_cast<double>(i * i % 971)) + 0.1 * std::cos(static_cast<double>(i));
  return x;
}

Matrix transposed(const Matrix& x, std::int64_t rows, std::int64_t cols) {
  Matrix y(x.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) y[c * rows + r] = x[r * cols + c];
  return y;
}

// Returns a [n, k] times b [k, m].
Matrix product(const Matrix& a, const Matrix& b, std::int64_t n, std::int64_t k, std::int64_t m) {
  Matrix y(static_cast<std::size_t>(n * m));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < m; ++j)
      for (std::int64_t l = 0; l < k; ++l) y[i * m + j] += a[i * k + l] * b[l * m + j];
  return y;
}

Matrix by_the_book(Matrix x, std::int64_t rows, std::int64_t cols, const OptimizerConfig& config) {
  if (rows > cols)
    return transposed(by_the_book(transposed(x, rows, cols), cols, rows, config), cols, rows);
  double squares = 0;
  for (const double value : x) squares += value * value;
  for (double& value : x) value /= std::sqrt(squares) + 1e-7;
  const double quintic[5][3] = {{4.0848, -6.8946, 2.9270},
                                {3.9505, -6.3029, 2.6377},
                                {3.7418, -5.5913, 2.3037},
                                {2.8769, -3.1427, 1.2046},
                                {2.8366, -3.0525, 1.2012}};
  const double simple[3] = {3.4445, -4.7750, 2.0315};
  for (int step = 0; step < config.muon_steps; ++step) {
    const double* c =
        config.muon_coefficients == MuonCoefficients::quintic ? quintic[step % 5] : simple;
    const Matrix gram = product(x, transposed(x, rows, cols), rows, cols, rows);
    const Matrix square = product(gram, gram, rows, rows, rows);
    Matrix polynomial(gram.size());
    for (std::size_t i = 0; i < gram.size(); ++i) polynomial[i] = c[1] * gram[i] + c[2] * square[i];
    const Matrix y = product(polynomial, x, rows, rows, cols);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = c[0] * x[i] + y[i];
  }
  return x;
}

template <class A>
Matrix ours(const Matrix& x, std::int64_t rows, std::int64_t cols, const OptimizerConfig& config,
            DType compute) {
  NewtonSchulz step(cpu::device(), compute, config);
  std::vector<A> matrix(x.begin(), x.end());
  std::vector<std::byte> scratch(static_cast<std::size_t>(step.scratch_bytes(rows, cols)));
  step.run(matrix.data(), rows, cols, scratch.data());
  return {matrix.begin(), matrix.end()};
}

double largest_difference(const Matrix& a, const Matrix& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST(NewtonSchulz, FollowsTheFormula) {
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 40}, {48, 16}, {33, 33}}) {
    for (const char* coefficients : {"simple", "quintic"}) {
      OptimizerConfig config;
      config.muon_coefficients = named(coefficients);
      config.muon_scale = MuonScale::unit_rms;
      config.muon_scale_factor = std::sqrt(static_cast<double>(cols) / static_cast<double>(rows));
      const Matrix x = sample(rows, cols), expected = by_the_book(x, rows, cols, config);
      EXPECT_LE(largest_difference(ours<double>(x, rows, cols, config, DType::f64), expected),
                1e-12);
      EXPECT_LE(largest_difference(ours<float>(x, rows, cols, config, DType::f32), expected), 1e-4);
      // In bf16, up to rounding.
      EXPECT_LE(largest_difference(ours<float>(x, rows, cols, config, DType::bf16), expected),
                0.15);
    }
  }
}

TEST(NewtonSchulz, MakesSingularValuesNearlyOne) {
  const std::int64_t rows = 12, cols = 50;
  OptimizerConfig config;
  config.muon_scale = MuonScale::original;  // 1 for wide matrices
  const Matrix o = ours<double>(sample(rows, cols), rows, cols, config, DType::f64);
  const Matrix gram = product(o, transposed(o, rows, cols), rows, cols, rows);
  double trace = 0;
  for (std::int64_t i = 0; i < rows; ++i) trace += gram[i * rows + i];
  EXPECT_NEAR(trace / rows, 1, 0.35);  // mean square of singular values in [0.7, 1.2]
}

TEST(NewtonSchulz, NothingStaysNothing) {
  const Matrix zeros(6 * 4);
  EXPECT_EQ(ours<float>(zeros, 6, 4, {}, DType::f32), zeros);
}

TEST(NewtonSchulz, ScalesAreThoseOfTheSystems) {
  OptimizerConfig config;
  const auto scale = [&](const char* name, std::int64_t out, std::int64_t in) {
    config.muon_scale = named(name);
    return NewtonSchulz::scale(config, out, in);
  };
  EXPECT_DOUBLE_EQ(scale("match_rms", 400, 100), 4);
  EXPECT_DOUBLE_EQ(scale("match_rms", 100, 400), 4);
  EXPECT_DOUBLE_EQ(scale("spectral", 100, 400), 20);
  EXPECT_DOUBLE_EQ(scale("original", 400, 100), 2);
  EXPECT_DOUBLE_EQ(scale("original", 100, 400), 1);
  EXPECT_DOUBLE_EQ(scale("unit_rms", 100, 400), 0.5);
  config.muon_scale_factor = 0.2;  // Moonlight's, in Megatron's notation
  EXPECT_DOUBLE_EQ(scale("spectral", 400, 100), 4);
}

}  // namespace
}  // namespace trireme
