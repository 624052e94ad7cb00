// Products of 16-bit tensors without matrix-unit support: blocks are widened to float.
#pragma once

#include <array>
#include <memory>

#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/isa.h"

namespace trireme::cpu {

// T: bf16 or f16. C: T or float. Sums are float and run over k in blocks of fixed length and order.
template <class T, class C>
class WidenedGemm : public GemmEngine<T> {
 public:
  WidenedGemm(const GemmProblem& problem, Isa set);
  ~WidenedGemm() override;
  static std::int64_t workspace_bytes(const GemmProblem& problem);
  void run(void* c, const T* a, const T* b, const T* bias, bool accumulate,
           void* workspace) const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::cpu
