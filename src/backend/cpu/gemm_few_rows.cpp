// Splits the outputs into tasks that read about equally many bytes of weight.
#include "backend/cpu/gemm_few_rows.h"

#include <algorithm>

#include "backend/cpu/amx_code.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

constexpr std::int64_t bytes_per_task = 128 << 10;  // some ten microseconds

}  // namespace

template <class T>
void FewRowsGemm<T>::run(void* c, const T* a, const T* b, const T* bias, bool accumulate,
                         void* /*workspace*/) const {
  const FewRows<T> product{static_cast<T*>(c), a,          b,          bias,
                           problem_.m,         problem_.k, problem_.n, accumulate};
  const auto kernel = set_ == Isa::amx      ? amx_code().AmxKernels<T>::few_rows
                      : set_ == Isa::avx512 ? avx512::few_rows<T>
                                            : avx2::few_rows<T>;
  const std::int64_t row_bytes = problem_.k * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t outputs = round_up(std::max<std::int64_t>(1, bytes_per_task / row_bytes), 16);
  parallel_ranges(problem_.n, outputs,
                  [&](std::int64_t begin, std::int64_t end) { kernel(product, begin, end); });
}

template class FewRowsGemm<float>;
template class FewRowsGemm<bf16>;
template class FewRowsGemm<f16>;

}  // namespace trireme::cpu
