// bf16 products on AMX tiles: who packs what, and how work is cut for the pool.
#pragma once

#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/gemm_problem.h"

namespace trireme::cpu {

// Sums run over k in order whatever the cut, so that the cut may follow the number of threads.
// Besides the workspace each thread keeps amx::scratch_bytes of its own from its first product on.
class AmxGemm : public GemmEngine<bf16> {
 public:
  // C is float if into_float, else bf16.
  AmxGemm(const GemmProblem& problem, bool into_float);
  std::int64_t workspace_bytes() const override;
  void run(void* c, const bf16* a, const bf16* b, const bf16* bias, bool accumulate,
           void* workspace) const override;

 private:
  amx::Operand operand(amx::Side side, const bf16* a, const bf16* b) const;
  void pack_outer(char* packed, const amx::Operand& outer, amx::Range vectors) const;
  void multiply(const amx::Task& prototype) const;

  GemmProblem problem_;
  bool into_float_;
  amx::Side outer_side_;       // the smaller operand: packed whole, by all threads, for all tasks
  std::int64_t outer_vectors_;  // of one round; bounds the workspace
};

}  // namespace trireme::cpu
