// Tests of fp8 linear layers against a simple reference: each number is rounded with the scale of
// its tile, which a key identifies, and products are summed in double.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "graph/autodiff.h"
#include "graph/ops/interpreter.h"
#include "graph/ops/ops.h"

namespace trireme {
namespace {

using namespace testing_ops;

constexpr std::int64_t in = 300, out = 140;  // not multiples of a block
using Matrix = std::vector<double>;          // row-major

// `tile(r, c)` returns the key of an element's tile.
template <class Tile>
Matrix rounded(const double* x, std::int64_t row_count, std::int64_t cols, Fp8Type type, bool power,
               const Tile& tile) {
  std::map<std::pair<std::int64_t, std::int64_t>, float> largest;
  for (std::int64_t i = 0; i < row_count * cols; ++i) {
    float& seen = largest[tile(i / cols, i % cols)];
    seen = std::max(seen, std::abs(static_cast<float>(x[i])));
  }
  Matrix y(static_cast<std::size_t>(row_count * cols));
  for (std::int64_t i = 0; i < row_count * cols; ++i) {
    float scale = format_of(type).largest / largest[tile(i / cols, i % cols)];
    if (power) scale = std::ldexp(1.f, std::ilogb(scale));
    y[i] = from_fp8(type, to_fp8(type, static_cast<float>(x[i]) * scale)) * (1 / scale);
  }
  return y;
}

struct Recipe {
  Fp8Recipe recipe;
  Fp8Type forward, backward;
  bool power_of_2_scales;
};

class Fp8Linear : public testing::TestWithParam<Recipe> {
 protected:
  using Key = std::pair<std::int64_t, std::int64_t>;

  static bool blockwise() { return GetParam().recipe == Fp8Recipe::blockwise; }
  static Matrix weights(const double* w) {
    return rounded(w, out, in, GetParam().forward, GetParam().power_of_2_scales,
                   [](std::int64_t r, std::int64_t c) {
                     return blockwise() ? Key(r / 128, c / 128) : Key(0, 0);
                   });
  }
  // Rounds along columns, or along the rows of a sequence.
  static Matrix activations(const double* x, std::int64_t cols, Fp8Type type, bool over_rows) {
    return rounded(x, rows, cols, type, GetParam().power_of_2_scales,
                   [&](std::int64_t r, std::int64_t c) {
                     if (!blockwise()) return Key(r / seq, 0);
                     return over_rows ? Key(r / seq * 100 + r % seq / 128, c) : Key(r, c / 128);
                   });
  }
};

void expect_same(const double* actual, const Matrix& expected, const char* what) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], 1e-12 * (1 + std::abs(expected[i]))) << what << " " << i;
}

TEST_P(Fp8Linear, EqualsItsDefinition) {
  const auto [recipe, forward, backward, power] = GetParam();
  Graph g(DType::f64);
  const ValueId x = g.segment_input({rows, in});
  const ValueId w = g.parameter({"weight", {out, in}, {}}), bias = g.parameter({"bias", {out}, {}});
  const ValueId y = ops::linear(g, x, w, bias);
  g.set_output(y);
  g.set_fp8({recipe, forward, backward, power, seq, seq});
  differentiate(g);
  Interpreter run(g);
  run.objective();
  run.run_backward();
  const double* dy = run.data(g.output_grad());

  const Matrix xq = activations(run.data(x), in, forward, false), wq = weights(run.data(w));
  Matrix expected(rows * out);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = run.data(bias)[o];
      for (std::int64_t i = 0; i < in; ++i) sum += xq[r * in + i] * wq[o * in + i];
      expected[r * out + o] = sum;
    }
  expect_same(run.data(y), expected, "y");

  const Matrix dyq = activations(dy, out, backward, false);
  Matrix dx(rows * in), dw(out * in);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t i = 0; i < in; ++i) dx[r * in + i] += dyq[r * out + o] * wq[o * in + i];
  expect_same(run.data(g.input_grad()), dx, "dx");

  const Matrix xt = activations(run.data(x), in, forward, true),
               dyt = activations(dy, out, backward, true);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t i = 0; i < in; ++i) dw[o * in + i] += dyt[r * out + o] * xt[r * in + i];
  expect_same(run.data(g.gradient_of(w)), dw, "dw");

  // The bias gradient is a sum of unrounded values.
  Matrix dbias(out);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t o = 0; o < out; ++o) dbias[o] += dy[r * out + o];
  expect_same(run.data(g.gradient_of(bias)), dbias, "dbias");
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, Fp8Linear,
    testing::Values(Recipe{Fp8Recipe::tensorwise, Fp8Type::e4m3, Fp8Type::e5m2, false},
                    Recipe{Fp8Recipe::tensorwise, Fp8Type::e4m3_fnuz, Fp8Type::e4m3_fnuz, true},
                    Recipe{Fp8Recipe::blockwise, Fp8Type::e4m3, Fp8Type::e4m3, true},
                    Recipe{Fp8Recipe::blockwise, Fp8Type::e4m3_fnuz, Fp8Type::e5m2_fnuz, false}));

}  // namespace
}  // namespace trireme
