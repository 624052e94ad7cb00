// Tests of fp8 expert GEMMs against a simple reference: each expert separately, each number rounded
// with the scale of its tile, and sums in double.
#include "graph/ops/fp8_grouped.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "graph/ops/interpreter.h"

namespace trireme {
namespace {

using Numbers = std::vector<double>;  // row-major

struct GroupedRecipe {
  Fp8Recipe recipe;
  Fp8Type forward, backward;
  bool power_of_2_scales;
  std::int64_t blocks = 1;
};

// Wider than a block, with one expert with more than a block of rows, one without rows, and rows of
// no expert at the end.
GroupedShape shape_with(std::int64_t blocks) {
  return {170, 150, 133, 3, blocks};
}
std::vector<std::int32_t> offsets_with(std::int64_t blocks) {
  if (blocks == 1) return {0, 141, 141, 160};
  return {0, 133, 141, 141, 141, 141, 160};
}

template <class T>
std::vector<T> numbers(std::int64_t count, std::uint64_t stream) {
  std::vector<T> x;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i)
    x.push_back(static_cast<T>(static_cast<float>(std::ldexp(normal(5, stream, i), i % 9))));
  return x;
}

double as_double(double x) {
  return x;
}
double as_double(bf16 x) {
  return static_cast<double>(static_cast<float>(x));
}

class Fp8Experts : public testing::TestWithParam<GroupedRecipe> {
 protected:
  using Key = std::pair<std::int64_t, std::int64_t>;
  using Tile = std::function<Key(std::int64_t, std::int64_t)>;

  // Rows [first, first + count), with tiles of their own.
  template <class T>
  static Numbers rounded(const std::vector<T>& x, std::int64_t first, std::int64_t count,
                         std::int64_t cols, Fp8Type type, const Tile& tile) {
    std::map<Key, float> largest;
    const auto at = [&](std::int64_t i) {
      return static_cast<float>(as_double(x[static_cast<std::size_t>(first * cols + i)]));
    };
    for (std::int64_t i = 0; i < count * cols; ++i) {
      float& seen = largest[tile(i / cols, i % cols)];
      seen = std::max(seen, std::abs(at(i)));
    }
    Numbers y(static_cast<std::size_t>(count * cols));
    for (std::int64_t i = 0; i < count * cols; ++i) {
      float scale = format_of(type).largest / largest[tile(i / cols, i % cols)];
      if (GetParam().power_of_2_scales) scale = std::ldexp(1.f, std::ilogb(scale));
      y[i] = from_fp8(type, to_fp8(type, at(i) * scale)) * (1 / scale);
    }
    return y;
  }
  static bool blockwise() { return GetParam().recipe == Fp8Recipe::blockwise; }
  static Key weight_tile(std::int64_t r, std::int64_t c) {
    return blockwise() ? Key(r / 128, c / 128) : Key(0, 0);
  }
  static Key row_tile(std::int64_t r, std::int64_t c) {
    return blockwise() ? Key(r, c / 128) : Key(0, 0);
  }
  static Key column_tile(std::int64_t r, std::int64_t c) {
    return blockwise() ? Key(r / 128, c) : Key(0, 0);
  }

  // The results of all experts; for weight gradients, the sums over their blocks.
  template <class T>
  static Numbers reference(Product product, const std::vector<T>& a, const std::vector<T>& b) {
    const auto& [forward, backward] = std::pair(GetParam().forward, GetParam().backward);
    const GroupedShape s = shape_with(GetParam().blocks);
    const std::vector<std::int32_t> offsets = offsets_with(s.blocks);
    const bool sums = product == Product::weight_grad, is_forward = product == Product::forward;
    const std::int64_t a_cols = is_forward ? s.in : s.out, cols = is_forward ? s.out : s.in;
    Numbers made(static_cast<std::size_t>(sums ? s.groups * s.out * s.in : s.rows * cols));
    for (std::int64_t g = 0; g < s.groups * s.blocks; ++g) {
      const std::int64_t first = offsets[g], count = offsets[g + 1] - first;
      const std::int64_t weight = g / s.blocks * s.out;
      const Numbers aq = rounded(a, first, count, a_cols, is_forward ? forward : backward,
                                 sums ? column_tile : row_tile);
      const Numbers bq = sums ? rounded(b, first, count, s.in, forward, column_tile)
                              : rounded(b, weight, s.out, s.in, forward, weight_tile);
      for (std::int64_t r = 0; r < count; ++r)
        for (std::int64_t o = 0; o < s.out; ++o)
          for (std::int64_t i = 0; i < s.in; ++i) {
            if (sums) {
              made[(weight + o) * s.in + i] += aq[r * s.out + o] * bq[r * s.in + i];
            } else if (is_forward) {
              made[(first + r) * cols + o] += aq[r * s.in + i] * bq[o * s.in + i];
            } else {
              made[(first + r) * cols + i] += aq[r * s.out + o] * bq[o * s.in + i];
            }
          }
    }
    return made;
  }

  static Graph graph(DType compute) {
    Graph g(compute);
    Fp8Products fp8;
    fp8.recipe = GetParam().recipe;
    fp8.forward = GetParam().forward;
    fp8.backward = GetParam().backward;
    fp8.power_of_2_scales = GetParam().power_of_2_scales;
    g.set_fp8(fp8);
    return g;
  }

  struct Operands {
    std::int64_t a, b, dst;
  };
  static Operands sizes(Product product, const GroupedShape& s) {
    const std::int64_t weights = s.groups * s.out * s.in, x = s.rows * s.in, y = s.rows * s.out;
    if (product == Product::forward) return {x, weights, y};
    return product == Product::input_grad ? Operands{y, weights, x} : Operands{y, x, weights};
  }
};

void expect_all_near(const Numbers& actual, const Numbers& expected, double tolerance) {
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], tolerance * largest) << i;
}

TEST_P(Fp8Experts, EqualsItsDefinition) {
  const std::vector<std::int32_t> offsets = offsets_with(GetParam().blocks);
  const GroupedShape s = shape_with(GetParam().blocks);
  const auto check = [&]<class T>(T, double tolerance) {
    const Graph g = graph(dtype_of<T>);
    for (const Product product : {Product::forward, Product::input_grad, Product::weight_grad}) {
      SCOPED_TRACE(static_cast<int>(product));
      const bool sums = product == Product::weight_grad;
      const Operands count = sizes(product, s);
      const std::vector<T> a = numbers<T>(count.a, 1), b = numbers<T>(count.b, 2);
      std::vector<std::byte> scratch(static_cast<std::size_t>(
          ops::grouped_workspace(cpu::this_machine(), g, product, s) + 64));
      void* workspace = scratch.data();
      std::size_t space = scratch.size();
      std::align(64, space - 64, workspace, space);
      const auto made = ops::make_grouped(cpu::device(), g, product, s);
      Numbers dst(static_cast<std::size_t>(count.dst));
      Queue& queue = cpu::queue();
      if (!sums) {
        std::vector<T> rows(dst.size(), T(9.f));  // rows of no expert become zero
        made->run(queue, rows.data(), a.data(), b.data(), offsets.data(), false, workspace);
        std::transform(rows.begin(), rows.end(), dst.begin(), [](T x) { return as_double(x); });
      } else {
        // Accumulated twice: into zeros and, if groups are not split, into existing values.
        const std::int64_t each = s.out * s.in;
        std::vector<Acc<T>> one(static_cast<std::size_t>(each)), all(dst.size());
        made->run_each(queue, one.data(), a.data(), b.data(), offsets.data(), workspace,
                       [&](std::int64_t group) {
                         for (std::int64_t i = 0; i < each; ++i) all[group * each + i] += one[i];
                       });
        dst.assign(all.begin(), all.end());
        if (s.blocks == 1) {
          made->run(queue, all.data(), a.data(), b.data(), offsets.data(), true, workspace);
          for (std::size_t i = 0; i < dst.size(); ++i) dst[i] = all[i] / 2;
        }
      }
      expect_all_near(dst, reference(product, a, b), tolerance);
    }
  };
  check(double{}, 1e-12);
  check(bf16{}, 0x1p-8);
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, Fp8Experts,
    testing::Values(GroupedRecipe{Fp8Recipe::tensorwise, Fp8Type::e4m3, Fp8Type::e5m2, false},
                    GroupedRecipe{Fp8Recipe::tensorwise, Fp8Type::e4m3, Fp8Type::e4m3, true, 2},
                    GroupedRecipe{Fp8Recipe::blockwise, Fp8Type::e4m3, Fp8Type::e4m3, true},
                    GroupedRecipe{Fp8Recipe::blockwise, Fp8Type::e4m3_fnuz, Fp8Type::e5m2_fnuz,
                                  false, 2}));

}  // namespace
}  // namespace trireme
