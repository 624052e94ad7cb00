// Selects the kernel table of an instruction set, and sizes the kernels' workspaces.
#include <type_traits>

#include "backend/cpu/amx_code.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/row_chunks.h"

namespace trireme::cpu {

namespace avx2 {
template <class T>
const Kernels<T>& table();
}
namespace avx512 {
template <class T>
const Kernels<T>& table();
}

template <class T>
const Kernels<T>& kernels(Isa set) {
  if constexpr (!std::is_same_v<T, double>) {
    if (set == Isa::amx) return amx_code().AmxKernels<T>::table();
    if (set == Isa::avx512) return avx512::table<T>();
  }
  return avx2::table<T>();
}

template <class T>
const Kernels<T>& kernels() {
  return kernels<T>(isa());
}

template const Kernels<float>& kernels<float>(Isa);
template const Kernels<bf16>& kernels<bf16>(Isa);
template const Kernels<f16>& kernels<f16>(Isa);
template const Kernels<double>& kernels<double>(Isa);
template const Kernels<float>& kernels<float>();
template const Kernels<bf16>& kernels<bf16>();
template const Kernels<f16>& kernels<f16>();
template const Kernels<double>& kernels<double>();

std::int64_t norm_grad_workspace(std::int64_t rows, std::int64_t cols, int sums) {
  return sums * row_chunks(rows) * cols;
}

std::int64_t bias_grad_workspace(std::int64_t rows, std::int64_t cols) {
  return row_chunks(rows) * cols;
}

std::int64_t embedding_grad_workspace(std::int64_t rows, std::int64_t local_ids) {
  return local_ids + 1 + rows;
}

}  // namespace trireme::cpu
