// Products of floats for AVX2, of any number of rows: nothing is made beforehand for a shape.
#pragma once

#include <memory>

#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/gemm_tiles.h"
#include "backend/cpu/isa.h"

namespace trireme::cpu {

// Rows that lie a multiple of 1 KiB apart share a few sets of the caches. Where oneDNN gathers
// columns of such rows, as it does of a transposed A and of a plain B, it runs at a third to two
// thirds of its speed (docs/performance.md). Such an operand is copied into the workspace first,
// panel by panel, with rows that do not collide. No bit of the result changes.
class FloatGemm : public GemmEngine<float> {
 public:
  // Elements that the copy of an operand has at most, if it is wider than one tile.
  static constexpr std::int64_t panel_limit = 4 << 20;

  explicit FloatGemm(const GemmProblem& problem, std::int64_t limit = panel_limit);
  // Never less than for a problem of fewer rows.
  static std::int64_t workspace_bytes(const GemmProblem& problem, std::int64_t limit = panel_limit);
  void run(void* c, const float* a, const float* b, const float* bias, bool accumulate,
           void* workspace) const override;

 private:
  // How an operand comes to the tiles: from where it lies, or from a copy of a panel that is
  // `tiles` tiles wide.
  struct Panels {
    Panels(const Cut& cut, std::int64_t k, bool copies, std::int64_t limit);
    bool copied;
    std::int64_t tiles;
    std::int64_t pitch;  // elements between rows of the copy
  };
  // Where the operands lie: whole, or the panels that begin with row or column `origin` of C.
  struct Sources {
    const float *a, *b;
    std::int64_t lda, ldb;
    std::int64_t a_origin = 0, b_origin = 0;
  };

  void run_tile(std::int64_t row, std::int64_t col, float* c, const Sources& from,
                const float* bias, bool accumulate) const;

  GemmProblem problem_;
  Tiling tiling_;
  Panels a_, b_;
  std::int64_t a_floats_;  // of the copy of A, which lies before that of B
};

// Products of floats by what suits the instruction set.
std::unique_ptr<GemmEngine<float>> make_float_gemm(const GemmProblem& problem, Isa set);
std::int64_t float_gemm_workspace(const GemmProblem& problem, Isa set);

}  // namespace trireme::cpu
