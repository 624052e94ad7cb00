// Matrix products in double: the reference mode, in plain blocked loops.
#pragma once

#include "backend/cpu/gemm_problem.h"

namespace trireme::cpu {

class ReferenceGemm : public GemmEngine<double> {
 public:
  explicit ReferenceGemm(const GemmProblem& problem) : problem_(problem) {}
  void run(void* c, const double* a, const double* b, const double* bias, bool accumulate,
           void* workspace) const override;

 private:
  GemmProblem problem_;
};

}  // namespace trireme::cpu
