// bf16 products on AMX tiles: assignment of packing, and partition of work for the pool.
#pragma once

#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/gemm_problem.h"

namespace trireme::cpu {

// Sums run over k in order for every partition into tasks, so the partition may follow
// the number of threads. Besides the workspace, each thread keeps amx::scratch_bytes
// from its first product on.
class AmxGemm : public GemmEngine<bf16> {
 public:
  // C is float if into_float, else bf16. max_packed_bytes bounds the packed outer operand: large
  // enough that the inner one is rarely packed again, small enough for the last-level cache.
  AmxGemm(const GemmProblem& problem, bool into_float,
          std::int64_t max_packed_bytes = default_packed_bytes);
  std::int64_t workspace_bytes() const;
  // Largest workspace of any problem like this one with at most as many rows: of m, or of k if the
  // result is a weight gradient.
  static std::int64_t most_workspace(const GemmProblem& problem, bool into_float);
  void run(void* c, const bf16* a, const bf16* b, const bf16* bias, bool accumulate,
           void* workspace) const override;

 private:
  static constexpr std::int64_t default_packed_bytes = 16 << 20;

  amx::Operand operand(amx::Side side, const bf16* a, const bf16* b) const;
  std::int64_t outer_bytes() const;  // packed, per round
  void run_rounds(amx::Destination dst, const bf16* a, const bf16* b, char* packed) const;

  GemmProblem problem_;
  bool into_float_;
  amx::Side outer_side_;        // the smaller operand: packed by all threads, for all tasks
  std::int64_t outer_vectors_;  // per round
  std::int64_t round_k_;        // per round; less than k only if C is small
  bool keeps_sums_ = false;     // across rounds of k, in the workspace, because C is bf16
};

}  // namespace trireme::cpu
