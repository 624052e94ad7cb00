// GEMMs of linear layers by definition, in double, and operands in host memory whose bounds a
// library substitute checks.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "backend/gpu/libraries/library.h"
#include "backend/gpu_workspace.h"

namespace trireme::gpu {

// The memory that substitutes may access: the start of each operand, and its size in bytes.
inline std::map<const std::byte*, std::int64_t>& operands() {
  static std::map<const std::byte*, std::int64_t> all;
  return all;
}

inline bool lies_in_an_operand(const void* p, std::int64_t bytes) {
  const auto* const at = static_cast<const std::byte*>(p);
  auto after = operands().upper_bound(at);
  if (after == operands().begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return at + bytes <= begin + size;
}

// Random elements, aligned to 64 bytes as all values of a run are.
template <class T>
class Operand {
 public:
  Operand(std::int64_t count, std::uint64_t seed)
      : count_(count),
        memory_(static_cast<T*>(std::aligned_alloc(64, (bytes() + 63) / 64 * 64)), std::free) {
    if constexpr (!std::is_same_v<T, std::byte>) {  // a workspace has no values
      std::mt19937_64 generator(seed);
      std::normal_distribution<float> normal;
      for (std::int64_t i = 0; i < count; ++i) memory_.get()[i] = T(normal(generator));
    }
    operands()[reinterpret_cast<std::byte*>(memory_.get())] = static_cast<std::int64_t>(bytes());
  }
  ~Operand() { operands().erase(reinterpret_cast<std::byte*>(memory_.get())); }

  T* get() const { return memory_.get(); }
  double at(std::int64_t i) const { return static_cast<float>(memory_.get()[i]); }
  std::vector<double> values() const {
    std::vector<double> values;
    for (std::int64_t i = 0; i < count_; ++i) values.push_back(at(i));
    return values;
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(T); }

  std::int64_t count_;
  std::unique_ptr<T, decltype(&std::free)> memory_;
};

// A queue that executes everything immediately.
class HostQueue final : public Queue {
 public:
  void copy(void* dst, const void* src, std::int64_t bytes) override {
    EXPECT_TRUE(lies_in_an_operand(dst, bytes) && lies_in_an_operand(src, bytes));
    std::memcpy(dst, src, static_cast<std::size_t>(bytes));
  }
  void fill(void*, std::uint8_t, std::int64_t) override {}
  void record(Event&) override {}
  void wait(const Event&) override {}
  void synchronize() override {}
};

// What a product is added to: nothing, what the result holds, or a matrix elsewhere.
enum class Addend { none, result, elsewhere };

// Runs a library's GEMM on the host and compares it with the definition in kernels.h. T is the type
// of the operands, C that of the result.
template <class T, class C>
void expect_product(ProductLibrary& library, const ProductKey& key, Addend addend,
                    double tolerance) {
  SCOPED_TRACE(testing::Message() << record_name(key.product) << " " << key.rows << " x " << key.in
                                  << " x " << key.out << " of type "
                                  << static_cast<int>(key.compute) << ", bias " << key.bias
                                  << ", addend " << static_cast<int>(addend));
  const auto [rows, in, out] = key.shape();
  const bool forward = key.product == Product::forward;
  const bool weight_grad = key.product == Product::weight_grad;
  const Operand<T> a(rows * (forward ? in : out), 1), b(weight_grad ? rows * in : out * in, 2);
  const Operand<T> bias(out, 3);
  const std::int64_t m = weight_grad ? out : rows, n = forward ? out : in;
  const Operand<C> result(m * n, 4), elsewhere(m * n, 6);
  const std::vector<double> before =
      addend == Addend::elsewhere ? elsewhere.values() : result.values();
  const Operand<std::byte> workspace(library_workspace, 5);

  const auto product = library.product(key);
  ASSERT_TRUE(product && product->use(product->first_answer()));
  HostQueue queue;
  const T* const added_bias = key.bias ? bias.get() : nullptr;
  if (addend == Addend::elsewhere)
    ASSERT_TRUE(product->run_onto(queue, result.get(), elsewhere.get(), a.get(), b.get(),
                                  added_bias, workspace.get()));
  else
    product->run(queue, result.get(), a.get(), b.get(), added_bias, addend == Addend::result,
                 workspace.get());

  const std::int64_t steps = forward ? in : weight_grad ? rows : out;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = key.bias ? bias.at(j) : 0;
      if (addend != Addend::none) sum += before[static_cast<std::size_t>(i * n + j)];
      for (std::int64_t s = 0; s < steps; ++s) {
        sum += forward       ? a.at(i * in + s) * b.at(j * in + s)
               : weight_grad ? a.at(s * out + i) * b.at(s * in + j)
                             : a.at(i * out + s) * b.at(s * in + j);
      }
      ASSERT_NEAR(result.at(i * n + j), sum, tolerance * std::max(1.0, std::fabs(sum)))
          << "row " << i << ", column " << j;
    }
  }
}

// Returns sixty shapes, most of them odd.
inline std::vector<LinearShape> sixty_shapes() {
  std::vector<LinearShape> shapes = {{1, 1, 1},    {1, 64, 1},   {16, 16, 16}, {32, 64, 48},
                                     {64, 16, 96}, {1, 40, 200}, {130, 8, 8},  {8, 8, 130}};
  std::mt19937_64 generator(1);
  std::uniform_int_distribution<std::int64_t> size(1, 45);
  while (shapes.size() < 60) shapes.push_back({size(generator), size(generator), size(generator)});
  return shapes;
}

// Tests all shapes, products and types, with and without bias and addend; `both`: also with both.
inline void expect_all_products(ProductLibrary& library, bool both) {
  for (const LinearShape& shape : sixty_shapes()) {
    for (const Product product : {Product::forward, Product::input_grad, Product::weight_grad}) {
      for (const bool bias : {false, true}) {
        for (const Addend addend : {Addend::none, Addend::result, Addend::elsewhere}) {
          const bool adds = addend != Addend::none, forward = product == Product::forward;
          if (((bias || addend == Addend::elsewhere) && !forward) || (bias && adds && !both))
            continue;
          const auto check = [&]<class T>(T, double tolerance) {
            const ProductKey key{product, bias, dtype_of<T>, shape.rows, shape.in, shape.out};
            if (product == Product::weight_grad) {
              expect_product<T, float>(library, key, addend, 1e-5);
            } else {
              expect_product<T, T>(library, key, addend, tolerance);
            }
          };
          check(float{}, 1e-5), check(bf16{}, 0x1p-8), check(f16{}, 0x1p-10);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace trireme::gpu
