// Builds with sanitizers compile the kernels for AVX2 only: all instruction sets share the sources,
// and each takes minutes to compile. The other sets are mapped to these kernels.
#include "backend/cpu/kernels/few_rows.h"

namespace trireme::cpu {

namespace avx2 {
template <class T>
const Kernels<T>& table();
}

#define TRIREME_ANSWER(isa)                                                        \
  namespace isa {                                                                  \
  template <class T>                                                               \
  const Kernels<T>& table() {                                                      \
    return avx2::table<T>();                                                       \
  }                                                                                \
  template <class T>                                                               \
  void few_rows(const FewRows<T>& product, std::int64_t first, std::int64_t end) { \
    avx2::few_rows(product, first, end);                                           \
  }                                                                                \
  template const Kernels<float>& table<float>();                                   \
  template const Kernels<bf16>& table<bf16>();                                     \
  template const Kernels<f16>& table<f16>();                                       \
  template void few_rows(const FewRows<float>&, std::int64_t, std::int64_t);       \
  template void few_rows(const FewRows<bf16>&, std::int64_t, std::int64_t);        \
  template void few_rows(const FewRows<f16>&, std::int64_t, std::int64_t);         \
  }
TRIREME_ANSWER(avx512)
TRIREME_ANSWER(amx)
#undef TRIREME_ANSWER

}  // namespace trireme::cpu
