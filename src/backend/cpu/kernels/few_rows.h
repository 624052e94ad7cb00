// y = x weight^T + bias for a few rows of x, bound by reading weight, which is read only once.
#pragma once

#include "backend/cpu/kernels.h"

namespace trireme::cpu {

constexpr std::int64_t max_few_rows = 8;

// y [rows, out] (+)= x [rows, in] weight [out, in]^T + bias, for at most max_few_rows rows. bias
// may be null.
template <class T>
struct FewRows {
  T* y;
  const T *x, *weight, *bias;
  std::int64_t rows, in, out;
  bool accumulate;
};

// Computes outputs [first, end) in the calling thread.
namespace avx2 {
template <class T>
void few_rows(const FewRows<T>& product, std::int64_t first, std::int64_t end);
}
namespace avx512 {
template <class T>
void few_rows(const FewRows<T>& product, std::int64_t first, std::int64_t end);
}
namespace amx {
template <class T>
void few_rows(const FewRows<T>& product, std::int64_t first, std::int64_t end);
}

}  // namespace trireme::cpu
