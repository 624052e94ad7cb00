// Matrix products by oneDNN: one-threaded primitives on tiles that our own pool spreads.
#pragma once

#include <memory>

#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/isa.h"

namespace trireme::cpu {

// T: float, or bf16 where oneDNN has it (AVX512-BF16 and above). C: T or float. A bias needs C = T.
// Floats for AVX2 whose rows collide in the caches are copied first, panel by panel, into rows that
// do not: that is what the workspace is for. The copies change no bit of the result.
template <class T, class C>
class DnnlGemm : public GemmEngine<T> {
 public:
  // Elements that a panel has at most, if more than one tile.
  static constexpr std::int64_t panel_limit = 4 << 20;
  explicit DnnlGemm(const GemmProblem& problem, Isa set = isa(), std::int64_t limit = panel_limit);
  ~DnnlGemm() override;
  static std::int64_t workspace_bytes(const GemmProblem& problem, Isa set,
                                      std::int64_t limit = panel_limit);
  void run(void* c, const T* a, const T* b, const T* bias, bool accumulate,
           void* workspace) const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::cpu
