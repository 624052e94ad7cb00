// Matrix products by oneDNN: single-threaded primitives on tiles distributed over our own pool.
#pragma once

#include <memory>

#include "backend/cpu/gemm_problem.h"

namespace trireme::cpu {

// Called by each thread before it uses oneDNN: limits oneDNN to isa(), and
// to no threads of its own.
void prepare_dnnl();

// T: float, or bf16 where oneDNN has it (AVX512-BF16 and above). C: T or float. A bias needs C = T.
template <class T, class C>
class DnnlGemm : public GemmEngine<T> {
 public:
  explicit DnnlGemm(const GemmProblem& problem);
  ~DnnlGemm() override;
  void run(void* c, const T* a, const T* b, const T* bias, bool accumulate,
           void* workspace) const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::cpu
