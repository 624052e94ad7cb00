// Forward products of a few rows, as in generation, which are bound by memory bandwidth.
#pragma once

#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/kernels/few_rows.h"

namespace trireme::cpu {

// T: float, bf16 or f16. Sums are float.
template <class T>
class FewRowsGemm : public GemmEngine<T> {
 public:
  // problem must be a forward product of at most max_few_rows rows.
  FewRowsGemm(const GemmProblem& problem, Isa set) : problem_(problem), set_(set) {}
  void run(void* c, const T* a, const T* b, const T* bias, bool accumulate,
           void* workspace) const override;

 private:
  GemmProblem problem_;
  Isa set_;
};

}  // namespace trireme::cpu
