// Matrix products by oneDNN: one-threaded primitives on tiles that our own pool spreads.
#pragma once

#include <memory>

#include "backend/cpu/gemm_problem.h"

namespace trireme::cpu {

// To be called by each thread before it uses oneDNN: it may use no more than isa() says, and no
// threads of its own.
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
