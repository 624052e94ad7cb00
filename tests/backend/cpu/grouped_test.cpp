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

// Two weights with two blocks of rows each: what four groups make, of which two share a weight.
TYPED_TEST(GroupedProducts, TakeTheRowsOfAGroupBlockByBlock) {
  using T = TypeParam;
  constexpr GroupedShape halves{rows, in, out, groups / 2, 2};
  const auto a = random<T>(rows * std::max(in, out), 1), x = random<T>(rows * in, 2),
             weights = random<T>(halves.groups * out * in, 3);
  std::vector<T> twice;  // each weight for both of its blocks
  for (std::int64_t g = 0; g < groups; ++g)
    twice.insert(twice.end(), weights.begin() + g / 2 * out * in,
                 weights.begin() + (g / 2 + 1) * out * in);
  const double tolerance = sizeof(T) == 2 ? 0.02 : sizeof(T) == 4 ? 1e-4 : 1e-12;
  const auto made = [&](Product product) {
    return cpu::device().grouped(dtype_of<T>, product, halves);
  };
  std::vector<std::byte> workspace(static_cast<std::size_t>(std::max(
      cpu::grouped_workspace(cpu::this_machine(), dtype_of<T>, Product::forward, halves),
      cpu::grouped_workspace(cpu::this_machine(), dtype_of<T>, Product::weight_grad, halves))));
  for (const auto& offsets : loads) {
    std::vector<T> y(rows * out);
    made(Product::forward)
        ->run(cpu::queue(), y.data(), a.data(), weights.data(), offsets.data(), false,
              workspace.data());
    check(y, expected(Product::forward, a, twice, offsets), tolerance);
    std::vector<Acc<T>> block(out * in);
    std::vector<double> sums(halves.groups * out * in), wanted(sums.size());
    made(Product::weight_grad)
        ->run_each(cpu::queue(), block.data(), a.data(), x.data(), offsets.data(), workspace.data(),
                   [&](std::int64_t g) {
                     for (std::size_t i = 0; i < block.size(); ++i)
                       sums[g * block.size() + i] += number(block[i]);
                   });
    const auto each = expected(Product::weight_grad, a, x, offsets);
    for (std::size_t i = 0; i < each.size(); ++i)
      wanted[i / block.size() / 2 * block.size() + i % block.size()] += each[i];
    check(sums, wanted, tolerance);
  }
}

}  // namespace
}  // namespace trireme
