// Selects the engine of a product by type, instruction set and shape.
#include "backend/cpu/gemm.h"

#include <map>
#include <mutex>
#include <tuple>

#include "backend/cpu/attention_sizes.h"
#include "backend/cpu/delta_sizes.h"
#include "backend/cpu/gemm_amx.h"
#include "backend/cpu/gemm_dnnl.h"
#include "backend/cpu/gemm_few_rows.h"
#include "backend/cpu/gemm_float.h"
#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/gemm_reference.h"
#include "backend/cpu/gemm_widened.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/workspace.h"
#include "base/error.h"
#include "base/portable_math.h"

namespace trireme::cpu {
namespace {

enum class Engine : std::uint8_t { reference, few_rows, dnnl, amx, widened };

// Row count above which packing the weights pays off; smaller on faster ISAs.
std::int64_t few_rows_limit(const Target& target, DType compute) {
  const bool has_unit = compute == DType::bf16 && target.bf16_dot_products;
  return has_unit ? max_few_rows / 2 : max_few_rows;
}

// `into_float`: C is Acc<T>.
Engine choose(const Target& target, DType compute, Product product, const GemmProblem& problem,
              bool into_float) {
  if (compute == DType::f64) return Engine::reference;
  if (product == Product::forward && !into_float && problem.m <= few_rows_limit(target, compute))
    return Engine::few_rows;
  if (compute == DType::f32) return Engine::dnnl;
  if (compute == DType::bf16 && target.isa == Isa::amx) return Engine::amx;
  if (compute == DType::bf16 && target.bf16_dot_products) return Engine::dnnl;
  return Engine::widened;
}

template <class T>
std::unique_ptr<GemmEngine<T>> make_engine(const Target& target, Product product,
                                           const GemmProblem& problem, bool into_float) {
  const Engine engine = choose(target, dtype_of<T>, product, problem, into_float);
  if constexpr (std::is_same_v<T, double>) {
    return std::make_unique<ReferenceGemm>(problem);
  } else {
    if (engine == Engine::few_rows) return std::make_unique<FewRowsGemm<T>>(problem, target.isa);
    if constexpr (std::is_same_v<T, float>) {
      return make_float_gemm(problem, target.isa);
    } else {
      if constexpr (std::is_same_v<T, bf16>) {
        if (engine == Engine::amx) return std::make_unique<AmxGemm>(problem, into_float);
        if (engine == Engine::dnnl && into_float)
          return std::make_unique<DnnlGemm<bf16, float>>(problem);
        if (engine == Engine::dnnl) return std::make_unique<DnnlGemm<bf16, bf16>>(problem);
      }
      if (into_float) return std::make_unique<WidenedGemm<T, float>>(problem, target.isa);
      return std::make_unique<WidenedGemm<T, T>>(problem, target.isa);
    }
  }
}

template <class T>
std::int64_t widened_workspace(const GemmProblem& problem, bool into_float) {
  return into_float ? WidenedGemm<T, float>::workspace_bytes(problem)
                    : WidenedGemm<T, T>::workspace_bytes(problem);
}

std::int64_t engine_workspace(const Target& target, DType compute, Product product,
                              const GemmProblem& problem, bool into_float) {
  switch (choose(target, compute, product, problem, into_float)) {
    case Engine::amx:
      return AmxGemm(problem, into_float).workspace_bytes();
    case Engine::widened:
      return compute == DType::bf16 ? widened_workspace<bf16>(problem, into_float)
                                    : widened_workspace<f16>(problem, into_float);
    case Engine::dnnl:
      return compute == DType::f32 ? float_gemm_workspace(problem, target.isa) : 0;
    case Engine::reference:
    case Engine::few_rows:
      break;
  }
  return 0;
}

// Returns whether the product's result is stored as Acc<T>.
bool sums_in_float(Product product) {
  return product == Product::weight_grad;
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
  std::int64_t workspace_bytes;
  std::unique_ptr<GemmEngine<T>> engine;
};

template <class T>
Linear<T>::Linear(Product product, const LinearShape& shape, Isa set) {
  TRIREME_CHECK(shape.rows > 0 && shape.in > 0 && shape.out > 0);
  TRIREME_CHECK(supports(set));
  const Target target = this_machine(set);
  impl_ = std::make_unique<Impl>(
      Impl{product, linear_workspace(target, dtype_of<T>, product, shape),
           make_engine<T>(target, product, problem_of(product, shape), sums_in_float(product))});
}

template <class T>
Linear<T>::~Linear() = default;

template <class T>
std::int64_t Linear<T>::workspace_bytes() const {
  return impl_->workspace_bytes;
}

template <class T>
void Linear<T>::run(void* dst, const T* a, const T* b, const T* bias, bool accumulate,
                    void* workspace) const {
  TRIREME_CHECK(!bias || impl_->product == Product::forward);
  impl_->engine->run(dst, a, b, bias, accumulate, align(workspace));
}

template <class T>
std::shared_ptr<const Linear<T>> shared_linear(Product product, const LinearShape& shape) {
  static std::mutex mutex;
  static std::map<std::tuple<bool, Product, std::int64_t, std::int64_t, std::int64_t>,
                  std::weak_ptr<const Linear<T>>>
      made;
  const std::scoped_lock lock(mutex);
  std::weak_ptr<const Linear<T>>& known =
      made[{math::is_portable(), product, shape.rows, shape.in, shape.out}];
  std::shared_ptr<const Linear<T>> linear = known.lock();
  if (!linear) known = linear = std::make_shared<const Linear<T>>(product, shape);
  return linear;
}

namespace {

template <class T>
class Sums final : public LinearProduct {
 public:
  Sums(Product product, const LinearShape& shape)
      : engine_(make_engine<T>(this_machine(isa()), product, problem_of(product, shape), true)) {}

  void run(Queue&, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void* workspace) const override {
    TRIREME_CHECK(!bias);
    engine_->run(dst, static_cast<const T*>(a), static_cast<const T*>(b), nullptr, accumulate,
                 align(workspace));
  }

 private:
  std::unique_ptr<GemmEngine<T>> engine_;
};

std::int64_t workspace_of(const Target& target, DType compute, Product product,
                          const LinearShape& shape, bool into_float) {
  const std::int64_t bytes =
      engine_workspace(target, compute, product, problem_of(product, shape), into_float);
  return bytes == 0 ? 0 : bytes + alignment;
}

}  // namespace

std::shared_ptr<const LinearProduct> make_sums(DType compute, Product product,
                                               const LinearShape& shape) {
  return with_compute_type(compute, [&]<class T>(T) -> std::shared_ptr<const LinearProduct> {
    return std::make_shared<const Sums<T>>(product, shape);
  });
}

std::int64_t linear_workspace(const Target& target, DType compute, Product product,
                              const LinearShape& shape) {
  return workspace_of(target, compute, product, shape, sums_in_float(product));
}

std::int64_t sums_workspace(const Target& target, DType compute, Product product,
                            const LinearShape& shape) {
  return workspace_of(target, compute, product, shape, true);
}

std::int64_t context_attention_workspace(const Target& target, DType compute,
                                         const AttentionShape& s) {
  AttentionShape chunks = s;
  chunks.batch *= 2;
  chunks.seq = s.cut.chunk;
  return attention_workspace(target, compute, chunks);
}

std::int64_t attention_workspace(const Target& target, DType compute, const AttentionShape& s) {
  const bool matrix_unit = compute == DType::bf16 && target.isa == Isa::amx;
  const std::int64_t element = compute == DType::f64 ? sizeof(double) : sizeof(float);
  return s.batch * s.groups * element *
         attention_dq_elements(s.queries_per_group, s.seq, s.head_dim, matrix_unit);
}

std::int64_t delta_workspace(const Target&, DType compute, const DeltaShape& s, bool grad) {
  const std::int64_t element = compute == DType::f64 ? sizeof(double) : sizeof(float);
  return grad ? s.batch * s.groups * element * delta_grad_elements(s) : 0;
}

template std::shared_ptr<const Linear<float>> shared_linear(Product, const LinearShape&);
template std::shared_ptr<const Linear<bf16>> shared_linear(Product, const LinearShape&);
template std::shared_ptr<const Linear<f16>> shared_linear(Product, const LinearShape&);
template std::shared_ptr<const Linear<double>> shared_linear(Product, const LinearShape&);
template class Linear<float>;
template class Linear<bf16>;
template class Linear<f16>;
template class Linear<double>;

}  // namespace trireme::cpu
