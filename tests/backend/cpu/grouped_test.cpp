// Products of rows that are sorted by group, against a product per row in double: even loads, empty
// groups, all rows in one, and rows that belong to none.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/cpu/device.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/workspace.h"
#include "base/random.h"

namespace trireme {
namespace {

constexpr std::int64_t groups = 4, in = 48, out = 40, rows = 300;

const std::vector<std::vector<std::int32_t>> loads = {
    {0, 75, 150, 225, 300}, {0, 0, 300, 300, 300}, {0, 1, 38, 38, 290}, {0, 0, 0, 0, 0}};

template <class T>
std::vector<T> random(std::int64_t count, std::uint64_t stream) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(static_cast<float>(normal(3, stream, i)));
  return values;
}

template <class T>
double number(T value) {
  return static_cast<double>(static_cast<Acc<T>>(value));
}

// What the result is without accumulation, in double.
template <class T>
std::vector<double> expected(Product product, const std::vector<T>& a, const std::vector<T>& b,
                             const std::vector<std::int32_t>& offsets) {
  const std::int64_t cols = product == Product::forward ? out : in;
  std::vector<double> result(product == Product::weight_grad ? groups * out * in : rows * cols);
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t r = offsets[g]; r < offsets[g + 1]; ++r) {
      for (std::int64_t o = 0; o < out; ++o) {
        for (std::int64_t i = 0; i < in; ++i) {
          const std::int64_t weight = (g * out + o) * in + i;
          if (product == Product::forward)
            result[r * out + o] += number(a[r * in + i]) * number(b[weight]);
          if (product == Product::input_grad)
            result[r * in + i] += number(a[r * out + o]) * number(b[weight]);
          if (product == Product::weight_grad)
            result[weight] += number(a[r * out + o]) * number(b[r * in + i]);
        }
      }
    }
  }
  return result;
}

template <class T>
class GroupedProducts : public testing::Test {};
using Types = testing::Types<float, bf16, f16, double>;
TYPED_TEST_SUITE(GroupedProducts, Types);

template <class D>
void check(const std::vector<D>& found, const std::vector<double>& wanted, double tolerance) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(number(found[i]), wanted[i], tolerance * (1 + std::abs(wanted[i]))) << i;
}

template <class T>
void compare(Product product, const std::vector<std::int32_t>& offsets) {
  const bool sums = product == Product::weight_grad;
  const std::int64_t a_cols = product == Product::forward ? in : out;
  const auto a = random<T>(rows * a_cols, 1);
  const auto b = random<T>(sums ? rows * in : groups * out * in, 2);
  const auto wanted = expected(product, a, b, offsets);
  const auto grouped = cpu::device().grouped(dtype_of<T>, product, {rows, in, out, groups});
  std::vector<std::byte> workspace(static_cast<std::size_t>(
      cpu::grouped_workspace(cpu::this_machine(), dtype_of<T>, product, {rows, in, out, groups})));
  const double tolerance = sizeof(T) == 2 ? 0.02 : sizeof(T) == 4 ? 1e-4 : 1e-12;
  const auto run = [&](auto& result, bool accumulate) {
    grouped->run(cpu::queue(), result.data(), a.data(), b.data(), offsets.data(), accumulate,
                 workspace.data());
  };
  if (!sums) {
    std::vector<T> result(wanted.size(), T(9.0F));
    run(result, false);
    return check(result, wanted, tolerance);
  }
  std::vector<Acc<T>> result(wanted.size(), 9);
  run(result, false);
  check(result, wanted, tolerance);
  run(result, true);
  std::vector<double> twice = wanted;
  for (double& value : twice) value *= 2;
  check(result, twice, tolerance);
}

TYPED_TEST(GroupedProducts, AreThoseOfEachGroupAlone) {
  for (const Product product : {Product::forward, Product::input_grad, Product::weight_grad}) {
    for (const auto& offsets : loads) compare<TypeParam>(product, offsets);
  }
}

}  // namespace
}  // namespace trireme
