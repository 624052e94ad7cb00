// Float products for AVX2, with any number of rows: nothing is prepared per shape.
#pragma once

#include <memory>

#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/gemm_tiles.h"
#include "backend/cpu/isa.h"

namespace trireme::cpu {

// Tiles computed by oneDNN's general product: the reference for the bits of Avx2Gemm, and the
// engine of the few shapes that it does not take.
class FloatGemm : public GemmEngine<float> {
 public:
  explicit FloatGemm(const GemmProblem& problem);
  void run(void* c, const float* a, const float* b, const float* bias, bool accumulate,
           void* workspace) const override;

 private:
  GemmProblem problem_;
  Tiling tiling_;
};

// Returns whether a product of this instruction set runs on Avx2Gemm. With portable numerics all
// do. With TRIREME_ONEDNN in the environment none does: oneDNN computes the same bits, and other
// programs can watch its calls.
bool runs_on_avx2_gemm(const GemmProblem& problem, Isa set);

// Creates the float engine that suits the instruction set.
std::unique_ptr<GemmEngine<float>> make_float_gemm(const GemmProblem& problem, Isa set);
std::int64_t float_gemm_workspace(const GemmProblem& problem, Isa set);

}  // namespace trireme::cpu
