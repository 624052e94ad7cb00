// Chooses who computes a product: by type, instruction set and shape.
#include "backend/cpu/gemm.h"

#include "backend/cpu/gemm_amx.h"
#include "backend/cpu/gemm_dnnl.h"
#include "backend/cpu/gemm_few_rows.h"
#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/gemm_reference.h"
#include "backend/cpu/gemm_widened.h"
#include "backend/cpu/isa.h"
#include "base/error.h"

namespace trireme::cpu {
namespace {

template <class T>
using Engine = std::unique_ptr<GemmEngine<T>>;

// Beyond so many rows packing the weights pays, the earlier the faster the product then is.
template <class T>
std::int64_t few_rows_limit(Isa set) {
  const bool has_unit = std::is_same_v<T, bf16> && set != Isa::avx2 && has_avx512_bf16();
  return has_unit ? max_few_rows / 2 : max_few_rows;
}

template <class T>
Engine<T> make_engine(Product product, const GemmProblem& problem, Isa set) {
  const bool into_float = product == Product::weight_grad;
  if constexpr (std::is_same_v<T, double>) {
    return std::make_unique<ReferenceGemm>(problem);
  } else {
    if (product == Product::forward && problem.m <= few_rows_limit<T>(set)) {
      return std::make_unique<FewRowsGemm<T>>(problem, set);
    }
  }
  if constexpr (std::is_same_v<T, float>) {
    return std::make_unique<DnnlGemm<float, float>>(problem);
  } else if constexpr (!std::is_same_v<T, double>) {
    if constexpr (std::is_same_v<T, bf16>) {
      if (set == Isa::amx) return std::make_unique<AmxGemm>(problem, into_float);
      if (set != Isa::avx2 && has_avx512_bf16()) {
        if (into_float) return std::make_unique<DnnlGemm<bf16, float>>(problem);
        return std::make_unique<DnnlGemm<bf16, bf16>>(problem);
      }
    }
    if (into_float) return std::make_unique<WidenedGemm<T, float>>(problem);
    return std::make_unique<WidenedGemm<T, T>>(problem);
  }
}

constexpr std::int64_t alignment = 64;

void* align(void* workspace) {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace);
  return reinterpret_cast<void*>((address + alignment - 1) / alignment * alignment);
}

}  // namespace

template <class T>
struct Linear<T>::Impl {
  Product product;
  Engine<T> engine;
};

template <class T>
Linear<T>::Linear(Product product, const LinearShape& shape, Isa set) {
  TRIREME_CHECK(shape.rows > 0 && shape.in > 0 && shape.out > 0);
  TRIREME_CHECK(supports(set));
  impl_ = std::make_unique<Impl>(
      Impl{product, make_engine<T>(product, problem_of(product, shape), set)});
}

template <class T>
Linear<T>::~Linear() = default;

template <class T>
std::int64_t Linear<T>::workspace_bytes() const {
  const std::int64_t bytes = impl_->engine->workspace_bytes();
  return bytes == 0 ? 0 : bytes + alignment;
}

template <class T>
void Linear<T>::run(void* dst, const T* a, const T* b, const T* bias, bool accumulate,
                    void* workspace) const {
  TRIREME_CHECK(!bias || impl_->product == Product::forward);
  impl_->engine->run(dst, a, b, bias, accumulate, align(workspace));
}

template class Linear<float>;
template class Linear<bf16>;
template class Linear<f16>;
template class Linear<double>;

}  // namespace trireme::cpu
