// Float products for AVX2, with any number of rows: nothing is prepared per shape.
#pragma once

#include <memory>

#include "backend/cpu/gemm_problem.h"
#include "backend/cpu/gemm_tiles.h"
#include "backend/cpu/isa.h"

namespace trireme::cpu {

// Rows whose distance is a multiple of 1 KiB share a few cache sets. If oneDNN gathers columns of
// such rows, as it does for a transposed A and a plain B, it runs at a third to two thirds of its
// speed (docs/performance.md). Such operands are first copied into the workspace, panel by panel,
// with rows that do not collide. The result's bits are the same.
class FloatGemm : public GemmEngine<float> {
 public:
  // Maximum number of elements of an operand's copy, if it is wider than one tile.
  static constexpr std::int64_t panel_limit = 4 << 20;

  explicit FloatGemm(const GemmProblem& problem, std::int64_t limit = panel_limit);
  // Non-decreasing in the number of rows.
  static std::int64_t workspace_bytes(const GemmProblem& problem, std::int64_t limit = panel_limit);
  void run(void* c, const float* a, const float* b, const float* bias, bool accumulate,
           void* workspace) const override;

 private:
  // Source of an operand's tiles: the operand itself, or a copy of a panel
  // that is `tiles` tiles wide.
  struct Panels {
    Panels(const Cut& cut, std::int64_t k, bool copies, std::int64_t limit);
    bool copied;
    std::int64_t tiles;
    std::int64_t pitch;  // elements between rows of the copy
  };
  // Locations of the operands: whole, or the panels starting at row or column `origin` of C.
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
  std::int64_t a_floats_;  // size of A's copy, which precedes that of B
};

// Creates the float engine that suits the instruction set.
std::unique_ptr<GemmEngine<float>> make_float_gemm(const GemmProblem& problem, Isa set);
std::int64_t float_gemm_workspace(const GemmProblem& problem, Isa set);

}  // namespace trireme::cpu
