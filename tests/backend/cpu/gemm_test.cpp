// The three products of a linear layer against a plain loop in double.
#include "backend/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cpu/gemm_amx.h"
#include "backend/cpu/gemm_avx2.h"
#include "backend/cpu/gemm_float.h"
#include "backend/cpu/isa.h"
#include "base/random.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

template <class T>
double as_double(T value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return static_cast<float>(value);
  }
}

template <class T>
std::vector<T> random_values(std::int64_t count, std::uint64_t stream) {
  std::vector<T> values(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = 2 * uniform(7, stream, i) - 1;
    if constexpr (std::is_same_v<T, double>) {
      values[i] = value;
    } else {
      values[i] = T(static_cast<float>(value));
    }
  }
  return values;
}

// Half the distance from 1 to the next number: the relative error of one rounding.
template <class T>
constexpr double rounding = 0;
template <>
constexpr double rounding<double> = 0x1p-53;
template <>
constexpr double rounding<float> = 0x1p-24;
template <>
constexpr double rounding<f16> = 0x1p-11;
template <>
constexpr double rounding<bf16> = 0x1p-8;

// Every destination and workspace lies between guard bytes that must stay untouched.
class GuardedBytes {
 public:
  // Begins `misalignment` bytes after a multiple of 64.
  GuardedBytes(std::int64_t size, std::int64_t misalignment)
      : size_(size), begin_(guard), bytes_(size + 2 * guard + 128, canary) {
    while (reinterpret_cast<std::uintptr_t>(data()) % 64 != 0) ++begin_;
    begin_ += misalignment;
  }
  char* data() { return bytes_.data() + begin_; }
  bool is_intact() const {
    for (std::int64_t i = 0; i < guard; ++i) {
      if (bytes_[begin_ - 1 - i] != canary || bytes_[begin_ + size_ + i] != canary) return false;
    }
    return true;
  }

 private:
  static constexpr std::int64_t guard = 256;
  static constexpr char canary = 0x5a;
  std::int64_t size_, begin_;
  std::vector<char> bytes_;
};

const char* name_of(Product product) {
  constexpr const char* names[] = {"forward", "input_grad", "weight_grad"};
  return names[static_cast<int>(product)];
}

// The operands of one product, its result, and what it should be.
template <class T, class C>
class Case {
 public:
  Case(Product product, const LinearShape& shape, bool with_bias, bool accumulate)
      : product_(product), shape_(shape), accumulate_(accumulate) {
    const auto [rows, in, out] = shape;
    const bool forward = product == Product::forward;
    a_ = random_values<T>(rows * (forward ? in : out), 1);
    b_ = random_values<T>(product == Product::weight_grad ? rows * in : out * in, 2);
    if (with_bias) bias_ = random_values<T>(out, 3);
    m_ = product == Product::weight_grad ? out : rows;
    n_ = forward ? out : in;
    k_ = forward ? in : product == Product::input_grad ? out : rows;
    before_ = random_values<C>(m_ * n_, 4);
    expect();
  }

  // The result, m x n.
  std::vector<C> run(Isa set) const { return run_with(Linear<T>(product_, shape_, set), 8); }

  void check(Isa set) const { check_values(run(set), cpu::name_of(set)); }

  // The same with any object that runs the product as Linear does.
  template <class Computer>
  std::vector<C> run_with(const Computer& linear, std::int64_t workspace_misalignment) const {
    GuardedBytes workspace(linear.workspace_bytes(), workspace_misalignment);
    const auto bytes = static_cast<std::int64_t>(m_ * n_ * sizeof(C));
    GuardedBytes result(bytes, accumulate_ ? sizeof(C) : 0);
    std::memcpy(result.data(), before_.data(), bytes);
    linear.run(result.data(), a_.data(), b_.data(), bias_.empty() ? nullptr : bias_.data(),
               accumulate_, workspace.data());
    EXPECT_TRUE(workspace.is_intact()) << "workspace overrun, " << text();
    EXPECT_TRUE(result.is_intact()) << "destination overrun, " << text();
    std::vector<C> values(m_ * n_);
    std::memcpy(values.data(), result.data(), bytes);
    return values;
  }

  void check_values(const std::vector<C>& values, const char* computer) const {
    int failures = 0;
    for (std::int64_t m = 0; m < m_; ++m) {
      for (std::int64_t n = 0; n < n_; ++n) {
        const auto [sum, magnitude, start] = expected_[m * n_ + n];
        // k + 2 additions in any order, each rounded, one or two roundings of the result, and one
        // of what the product is added to.
        const double unit = std::is_same_v<T, double> ? rounding<double> : rounding<float>;
        const double tolerance = static_cast<double>(k_ + 3) * unit * magnitude +
                                 rounding<C> * (2 * std::abs(sum) + start);
        const double error = std::abs(as_double(values[m * n_ + n]) - sum);
        if (!(error <= tolerance) && ++failures <= 3) {
          ADD_FAILURE() << text() << " on " << computer << " at [" << m << ", " << n
                        << "]: " << as_double(values[m * n_ + n]) << " instead of " << sum
                        << ", tolerance " << tolerance;
        }
      }
    }
  }

 private:
  struct Expected {
    double sum = 0, magnitude = 0, start = 0;
    void add(double term) {
      sum += term;
      magnitude += std::abs(term);
    }
  };

  // Sums row by row of B, so that the plain loop is fast enough for the larger shapes.
  void expect() {
    expected_.resize(m_ * n_);
    std::vector<double> b(k_ * n_);
    for (std::int64_t i = 0; i < k_ * n_; ++i) {
      const std::int64_t k = i / n_, n = i % n_;
      b[i] = as_double(product_ == Product::forward ? b_[n * k_ + k] : b_[i]);
    }
    for (std::int64_t m = 0; m < m_; ++m) {
      Expected* row = expected_.data() + m * n_;
      for (std::int64_t n = 0; n < n_; ++n) {
        if (accumulate_) row[n].add(as_double(before_[m * n_ + n]));
        if (!bias_.empty()) row[n].add(as_double(bias_[n]));
        row[n].start = row[n].magnitude;
      }
      for (std::int64_t k = 0; k < k_; ++k) {
        const double a = as_double(a_[product_ == Product::weight_grad ? k * m_ + m : m * k_ + k]);
        for (std::int64_t n = 0; n < n_; ++n) row[n].add(a * b[k * n_ + n]);
      }
    }
  }

  std::string text() const {
    return std::string(name_of(product_)) + " rows " + std::to_string(shape_.rows) + " in " +
           std::to_string(shape_.in) + " out " + std::to_string(shape_.out) +
           (bias_.empty() ? "" : " bias") + (accumulate_ ? " accumulate" : "");
  }

  Product product_;
  LinearShape shape_;
  bool accumulate_;
  std::int64_t m_ = 0, n_ = 0, k_ = 0;
  std::vector<T> a_, b_, bias_;
  std::vector<C> before_;
  std::vector<Expected> expected_;
};

constexpr Isa all_sets[] = {Isa::avx2, Isa::avx512, Isa::amx};
constexpr Product all_products[] = {Product::forward, Product::input_grad, Product::weight_grad};

// Calls body(case) with the type of destination that the product has.
template <class T, class Body>
void with_case(Product product, const LinearShape& shape, bool bias, bool accumulate, Body body) {
  if (product == Product::weight_grad) {
    body(Case<T, Acc<T>>(product, shape, bias, accumulate));
  } else {
    body(Case<T, T>(product, shape, bias, accumulate));
  }
}

template <class T>
void check_all(const LinearShape& shape) {
  for (const Product product : all_products) {
    for (const bool accumulate : {false, true}) {
      for (const bool bias : {false, true}) {
        if (bias && product != Product::forward) continue;
        with_case<T>(product, shape, bias, accumulate, [](const auto& test) {
          for (const Isa set : all_sets) {
            if (supports(set)) test.check(set);
          }
        });
      }
    }
  }
}

// Compares Avx2Gemm<T> with oneDNN's product of the same numbers as floats, bit by bit.
template <class T>
void expect_bits_of_onednn(const GemmProblem& p, bool with_bias, bool accumulate) {
  const auto a = random_values<T>(p.m * p.k, 1), b = random_values<T>(p.k * p.n, 2);
  const std::vector<float> wide_a(a.begin(), a.end()), wide_b(b.begin(), b.end());
  const auto bias = random_values<float>(p.n, 3);
  const auto before = random_values<float>(p.m * p.n, 4);
  const float* const bias_of_floats = with_bias ? bias.data() : nullptr;
  std::vector<float> expected = before;
  FloatGemm(p).run(expected.data(), wide_a.data(), wide_b.data(), bias_of_floats, accumulate,
                   nullptr);
  GuardedBytes result(static_cast<std::int64_t>(before.size() * sizeof(float)), 4);
  GuardedBytes workspace(Avx2Gemm<T>::workspace_bytes(p), 0);
  std::memcpy(result.data(), before.data(), before.size() * sizeof(float));
  const T* own_bias = nullptr;
  if constexpr (std::is_same_v<T, float>) own_bias = bias_of_floats;
  Avx2Gemm<T>(p).run(result.data(), a.data(), b.data(), own_bias, accumulate, workspace.data());
  EXPECT_EQ(std::memcmp(result.data(), expected.data(), before.size() * sizeof(float)), 0)
      << p.m << " x " << p.n << " x " << p.k << (p.a_transposed ? ", A transposed" : "")
      << (p.b_transposed ? ", B transposed" : "");
  EXPECT_TRUE(result.is_intact() && workspace.is_intact());
}

template <class T>
class Gemm : public testing::Test {};
using Types = testing::Types<float, bf16, f16, double>;
TYPED_TEST_SUITE(Gemm, Types);

TYPED_TEST(Gemm, OddSizesAreRight) {
  const std::vector<LinearShape> shapes{
      {1, 1, 1},     {1, 3, 17},    {3, 1, 65},   {17, 65, 3},  {2, 130, 33},
      {65, 17, 130}, {130, 130, 1}, {31, 33, 32}, {33, 32, 31}, {64, 96, 48},
  };
  for (const LinearShape& shape : shapes) check_all<TypeParam>(shape);
}

TYPED_TEST(Gemm, SeveralTilesAndBlocksAreRight) {
  check_all<TypeParam>({300, 200, 410});
  check_all<TypeParam>({1, 300, 1100});  // one token, as in generation
  check_all<TypeParam>({1050, 20, 12});
  check_all<TypeParam>({20, 12, 2100});
  check_all<TypeParam>({20, 2100, 12});
}

TYPED_TEST(Gemm, FewRowsAreRight) {
  for (std::int64_t rows = 1; rows <= 9; ++rows) check_all<TypeParam>({rows, 67, 131});
}

TYPED_TEST(Gemm, ThreadsDoNotChangeABit) {
  const std::vector<LinearShape> shapes{{1, 256, 515}, {300, 150, 270}, {513, 128, 384}};
  for (const LinearShape& shape : shapes) {
    for (const Product product : all_products) {
      with_case<TypeParam>(product, shape, false, true, [](const auto& test) {
        for (const Isa set : all_sets) {
          if (!supports(set)) continue;
          ThreadPool::set_global_size(1);
          const auto one = test.run(set);
          for (const int threads : {2, 3}) {
            ThreadPool::set_global_size(threads);
            const auto many = test.run(set);
            EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof one[0]), 0);
          }
        }
      });
    }
  }
  ThreadPool::set_global_size(0);
}

TEST(Avx2Gemm, HasTheBitsOfOneDnn) {
  // Elsewhere oneDNN has other kernels.
  if (isa() != Isa::avx2) GTEST_SKIP() << "this processor has more than AVX2";
  struct Size {
    std::int64_t m, n, k;
  };
  // All remainders of groups of rows and of panels, pieces of rows, blocks and rounds of k, and
  // rounds of columns.
  const std::vector<Size> sizes{{2, 2, 1},     {3, 15, 5},      {4, 24, 95},     {5, 9, 97},
                                {6, 16, 96},   {49, 40, 257},   {145, 171, 193}, {160, 8, 300},
                                {73, 33, 191}, {257, 390, 130}, {96, 1050, 600}, {70, 20, 2600}};
  for (const auto& [m, n, k] : sizes) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        const GemmProblem p{
            m, n, k, a_transposed, b_transposed, a_transposed ? m : k, b_transposed ? k : n, n};
        ASSERT_TRUE(has_known_order(p));
        expect_bits_of_onednn<float>(p, !a_transposed, b_transposed);
        expect_bits_of_onednn<bf16>(p, false, a_transposed);
        expect_bits_of_onednn<f16>(p, false, b_transposed);
      }
    }
  }
}

// 16-bit products take 1,024 rows and columns at a time, and pack columns once for all of the rows.
TEST(Avx2Gemm, PacksColumnsForTheirOwnRows) {
  for (const LinearShape& shape : {LinearShape{1030, 20, 1040}, LinearShape{2050, 33, 20}}) {
    Case<bf16, bf16>(Product::forward, shape, true, false).check(Isa::avx2);
    Case<bf16, bf16>(Product::input_grad, shape, false, true).check(Isa::avx2);
  }
}

TEST(Avx2Gemm, DoesNotTakeTilesOfOneRowOrColumn) {
  EXPECT_FALSE(has_known_order({1, 64, 64, false, true, 64, 64, 64}));
  EXPECT_FALSE(has_known_order({64, 1, 64, false, true, 64, 64, 1}));
  EXPECT_FALSE(has_known_order({33, 32, 60000, true, false, 33, 32, 32}));  // 32 rows and one
}

// Operands that are too large to be packed at once take rounds, over k or over vectors.
TEST(AmxGemm, RoundsAreRight) {
  if (!supports(Isa::amx)) GTEST_SKIP() << "this processor has no AMX";
  constexpr std::int64_t small = 32 << 10;
  const std::vector<LinearShape> shapes{
      {70, 40, 3000}, {40, 3000, 70}, {3000, 70, 40}, {130, 130, 140}};
  for (const LinearShape& shape : shapes) {
    for (const Product product : all_products) {
      for (const bool accumulate : {false, true}) {
        with_case<bf16>(product, shape, product == Product::forward, accumulate,
                        [&](const auto& test) {
                          const AmxGemm rounds(problem_of(product, shape),
                                               product == Product::weight_grad, small);
                          test.check_values(test.run_with(rounds, 0), "AMX in rounds");
                        });
      }
    }
  }
}

// Results beyond a few megabytes take another way to memory.
TEST(AmxGemm, LargeResultsAreRight) {
  if (!supports(Isa::amx)) GTEST_SKIP() << "this processor has no AMX";
  for (const bool accumulate : {false, true}) {
    Case<bf16, bf16>(Product::forward, {2100, 8, 1056}, true, accumulate).check(Isa::amx);
    Case<bf16, float>(Product::weight_grad, {8, 1056, 1100}, false, accumulate).check(Isa::amx);
  }
}

}  // namespace
}  // namespace trireme::cpu
