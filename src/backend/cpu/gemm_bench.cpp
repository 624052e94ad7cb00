// One buffer serves all shapes; medians filter out other activity on the machine.
#include "backend/cpu/gemm_bench.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>

namespace trireme::cpu {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// Allocates on huge pages if available, like the memory of a run.
template <class T>
std::unique_ptr<T, Free> allocate(std::int64_t count) {
  constexpr std::size_t large_page = 2 << 20;
  const std::size_t bytes = (count * sizeof(T) + large_page - 1) / large_page * large_page;
  void* memory = std::aligned_alloc(large_page, bytes);
  if (!memory) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);
  return std::unique_ptr<T, Free>(static_cast<T*>(memory));
}

// Small numbers of both signs: sums neither overflow f16 nor become subnormal.
template <class T>
std::unique_ptr<T, Free> random_operand(std::int64_t count) {
  std::unique_ptr<T, Free> values = allocate<T>(count);
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    values.get()[i] = T(static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-34F);
  }
  return values;
}

template <class Body>
double median_seconds(double seconds, Body body) {
  using Clock = std::chrono::steady_clock;
  const auto timed = [&] {
    const auto start = Clock::now();
    body();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  timed();
  std::vector<double> times;
  for (double total = 0; total < seconds || times.size() < 3;) {
    times.push_back(timed());
    total += times.back();
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

template <class T>
std::vector<GemmTiming> time_linear_products(std::span<const LinearShape> shapes,
                                             double seconds_each, Isa set) {
  std::vector<GemmTiming> timings;
  for (const LinearShape& shape : shapes) {
    const std::int64_t x_count = shape.rows * shape.in, y_count = shape.rows * shape.out;
    const std::int64_t weight_count = shape.in * shape.out;
    const auto x = random_operand<T>(x_count), y = random_operand<T>(y_count);
    const auto weight = random_operand<T>(weight_count);
    const auto dweight = random_operand<Acc<T>>(weight_count);
    const auto bias = random_operand<T>(shape.out);
    for (const Product product : {Product::forward, Product::input_grad, Product::weight_grad}) {
      const Linear<T> linear(product, shape, set);
      const auto workspace = allocate<char>(linear.workspace_bytes());
      const double seconds = median_seconds(seconds_each, [&] {
        switch (product) {
          case Product::forward:
            linear.run(y.get(), x.get(), weight.get(), bias.get(), false, workspace.get());
            break;
          case Product::input_grad:
            linear.run(x.get(), y.get(), weight.get(), nullptr, false, workspace.get());
            break;
          case Product::weight_grad:
            linear.run(dweight.get(), y.get(), x.get(), nullptr, true, workspace.get());
            break;
        }
      });
      const double flops =
          2.0 * static_cast<double>(weight_count) * static_cast<double>(shape.rows);
      timings.push_back({product, shape, seconds, flops / seconds / 1e9});
    }
  }
  return timings;
}

template std::vector<GemmTiming> time_linear_products<float>(std::span<const LinearShape>, double,
                                                             Isa);
template std::vector<GemmTiming> time_linear_products<bf16>(std::span<const LinearShape>, double,
                                                            Isa);
template std::vector<GemmTiming> time_linear_products<f16>(std::span<const LinearShape>, double,
                                                           Isa);
template std::vector<GemmTiming> time_linear_products<double>(std::span<const LinearShape>, double,
                                                              Isa);

std::vector<LinearShape> gpt2_linear_shapes(std::int64_t tokens) {
  constexpr std::int64_t hidden = 768, vocabulary = 50304, logits_rows = 1024;
  return {{tokens, hidden, 3 * hidden},
          {tokens, hidden, hidden},
          {tokens, hidden, 4 * hidden},
          {tokens, 4 * hidden, hidden},
          {std::min(tokens, logits_rows), hidden, vocabulary}};
}

}  // namespace trireme::cpu
