// Plain loops.
#include "backend/cpu/small_kernels.h"

#include <cmath>
#include <cstring>

#include "base/error.h"

namespace trireme::cpu {
namespace {

std::int64_t checked(std::int32_t row, std::int64_t source_rows) {
  TRIREME_CHECK(row >= 0 && row < source_rows);
  return row;
}

}  // namespace

template <class T>
void take_rows(T* y, const T* x, const std::int32_t* numbers, std::int64_t taken,
               std::int64_t columns, std::int64_t source_rows) {
  for (std::int64_t i = 0; i < taken; ++i) {
    std::memcpy(y + i * columns, x + checked(numbers[i], source_rows) * columns,
                columns * sizeof(T));
  }
}

template <class T>
void take_rows_grad(T* dx, const T* dy, const std::int32_t* numbers, std::int64_t taken,
                    std::int64_t columns, std::int64_t source_rows) {
  using A = Acc<T>;
  std::memset(static_cast<void*>(dx), 0, source_rows * columns * sizeof(T));
  for (std::int64_t i = 0; i < taken; ++i) {
    T* sum = dx + checked(numbers[i], source_rows) * columns;
    const T* term = dy + i * columns;
    for (std::int64_t c = 0; c < columns; ++c) {
      sum[c] = static_cast<T>(static_cast<A>(sum[c]) + static_cast<A>(term[c]));
    }
  }
}

template <class A>
void softmax_rescale(A* sums, const A* sum, const A* target_logit, const A* local_largest,
                     const A* largest, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; ++r) {
    sums[r] = sum[r] * std::exp(local_largest[r] - largest[r]);
    sums[rows + r] = target_logit[r];
  }
}

template <class A>
void token_loss(A* loss, A* lse, const A* largest, const A* sum, const A* target_logit,
                std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; ++r) {
    lse[r] = largest[r] + std::log(sum[r]);
    loss[r] = lse[r] - target_logit[r];
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot appear in parentheses here.
#define TRIREME_INSTANTIATE(T)                                                                \
  template void take_rows(T*, const T*, const std::int32_t*, std::int64_t, std::int64_t,      \
                          std::int64_t);                                                      \
  template void take_rows_grad(T*, const T*, const std::int32_t*, std::int64_t, std::int64_t, \
                               std::int64_t);
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(bf16)
TRIREME_INSTANTIATE(f16)
TRIREME_INSTANTIATE(double)
#undef TRIREME_INSTANTIATE
#define TRIREME_INSTANTIATE(A)                                                             \
  template void softmax_rescale(A*, const A*, const A*, const A*, const A*, std::int64_t); \
  template void token_loss(A*, A*, const A*, const A*, const A*, std::int64_t);
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(double)
#undef TRIREME_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace trireme::cpu
