// A few rows of x stay in L1 while weight is streamed; each output is a dot product over `in`.
#include "backend/cpu/kernels/few_rows.h"

#include "backend/cpu/kernels/simd.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// Prefetch distance in bytes: rows of weight are contiguous in memory, but the hardware
// prefetches only within a page.
constexpr std::int64_t fetch_ahead = 4096;

// A group of outputs has a vector's length; its sums stay on the stack until it is complete.
template <class T>
using GroupSums = Acc<T>[max_few_rows][lanes_of<T>];

// Sums for `rows` rows and `outputs` outputs: enough running sums to hide the latency of an
// addition. `output` counts within the group starting at `first`.
template <class T, int rows, int outputs>
TRIREME_INLINE void multiply(GroupSums<T>& group, const FewRows<T>& p, int row, std::int64_t first,
                             int output) {
  using A = Acc<T>;
  Vec<A> sums[rows][outputs];
  for (auto& line : sums) {
    for (auto& sum : line) sum = splat(A{0});
  }
  for_vectors<lanes_of<T>>(p.in, [&](std::int64_t i, auto amount) TRIREME_INLINE_LAMBDA {
    Vec<A> weights[outputs];
#pragma GCC unroll 4
    for (int k = 0; k < outputs; ++k) {
      const T* weight = p.weight + (first + output + k) * p.in + i;
      __builtin_prefetch(reinterpret_cast<const char*>(weight) + fetch_ahead);
      weights[k] = load(weight, amount);
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      const Vec<A> x = load(p.x + (row + r) * p.in + i, amount);
#pragma GCC unroll 4
      for (int k = 0; k < outputs; ++k) sums[r][k] += x * weights[k];
    }
  });
  for (int r = 0; r < rows; ++r) {
    for (int k = 0; k < outputs; ++k) group[row + r][output + k] = sum_lanes(sums[r][k]);
  }
}

template <class T, int outputs>
TRIREME_INLINE void multiply_rows(GroupSums<T>& group, const FewRows<T>& p, std::int64_t first,
                                  int output) {
  const int rows = static_cast<int>(p.rows);
  int row = 0;
  for (; row + 4 <= rows; row += 4) multiply<T, 4, outputs>(group, p, row, first, output);
  for (; row + 2 <= rows; row += 2) multiply<T, 2, outputs>(group, p, row, first, output);
  for (; row < rows; ++row) multiply<T, 1, outputs>(group, p, row, first, output);
}

template <class T, class Amount>
TRIREME_INLINE void store_group(const GroupSums<T>& group, const FewRows<T>& p, std::int64_t first,
                                Amount amount) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    T* y = p.y + row * p.out + first;
    auto sum = load(group[row]);
    if (p.bias) sum += load(p.bias + first, amount);
    if (p.accumulate) sum += load(y, amount);
    store(y, sum, amount);
  }
}

}  // namespace

template <class T>
void few_rows(const FewRows<T>& product, std::int64_t first, std::int64_t end) {
  constexpr int outputs = register_bytes == 64 ? 4 : 2;
  alignas(64) GroupSums<T> group = {};
  for_vectors<lanes_of<T>>(end - first, [&](std::int64_t at, auto amount) TRIREME_INLINE_LAMBDA {
    int count = lanes_of<T>;
    if constexpr (requires { amount.count; }) count = amount.count;
    int output = 0;
    for (; output + outputs <= count; output += outputs) {
      multiply_rows<T, outputs>(group, product, first + at, output);
    }
    for (; output < count; ++output) multiply_rows<T, 1>(group, product, first + at, output);
    store_group<T>(group, product, first + at, amount);
  });
}

template void few_rows(const FewRows<float>&, std::int64_t, std::int64_t);
template void few_rows(const FewRows<bf16>&, std::int64_t, std::int64_t);
template void few_rows(const FewRows<f16>&, std::int64_t, std::int64_t);

}  // namespace trireme::cpu::TRIREME_ISA
