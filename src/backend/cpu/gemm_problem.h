// A product of a linear layer as a matrix product C[m, n] (+)= A B, and its engine interface.
#pragma once

#include <cstdint>

#include "backend/cpu/gemm.h"
#include "base/divide.h"

namespace trireme::cpu {

// A is [m, k], or stored [k, m] if a_transposed. B is [k, n], or stored [n, k] if b_transposed.
// All are row-major; lda, ldb and ldc are the elements between stored rows.
struct GemmProblem {
  std::int64_t m, n, k;
  bool a_transposed, b_transposed;
  std::int64_t lda, ldb, ldc;
};

constexpr GemmProblem problem_of(Product product, const LinearShape& s) {
  switch (product) {
    case Product::forward:
      return {s.rows, s.out, s.in, false, true, s.in, s.in, s.out};
    case Product::input_grad:
      return {s.rows, s.in, s.out, false, false, s.out, s.in, s.in};
    case Product::weight_grad:
      return {s.out, s.in, s.rows, true, false, s.out, s.in, s.in};
  }
  return {};
}

// Returns whether rows with this stride in floats share a few cache sets; also the stride to use
// instead for rows of `cols` floats (FloatGemm states the cost).
constexpr std::int64_t floats_per_kib = 256;
constexpr bool rows_collide(std::int64_t ld) {
  return ld % floats_per_kib == 0;
}
constexpr std::int64_t spread_rows(std::int64_t cols) {
  constexpr std::int64_t cache_line = 16;
  return cols % (floats_per_kib / 2) == 0 ? cols + cache_line : cols;
}

// Engine for one problem; T is the type of A, B and bias. C has type T or Acc<T>, depending on the
// product. workspace is aligned to 64 bytes.
template <class T>
class GemmEngine {
 public:
  virtual ~GemmEngine() = default;
  virtual void run(void* c, const T* a, const T* b, const T* bias, bool accumulate,
                   void* workspace) const = 0;
};

}  // namespace trireme::cpu
