// Products on AVX2 whose sums are float, in the order of gemm_order.h.
#pragma once

#include <vector>

#include "backend/cpu/gemm_order.h"

namespace trireme::cpu {

// T: float, bf16 or f16. C is float whatever T is, and only float has a bias. All threads pack
// columns of B once; each task packs the rows of A that it multiplies. Both become float there.
// Besides the workspace, each thread keeps 330 KiB from its first product on.
template <class T>
class Avx2Gemm : public GemmEngine<T> {
 public:
  // Requires has_known_order(problem), or portable numerics, which are not compared with oneDNN.
  explicit Avx2Gemm(const GemmProblem& problem);
  // Non-decreasing in the number of rows.
  static std::int64_t workspace_bytes(const GemmProblem& problem);
  void run(void* c, const T* a, const T* b, const T* bias, bool accumulate,
           void* workspace) const override;

  // Returns whether run() packs all of B at once.
  bool packs_once() const;
  // run() for another A and C of a problem with the same B, k and layout, whose run() was the last
  // one with this workspace. Requires packs_once().
  void run_again(void* c, const T* a, bool accumulate, void* workspace) const;

 private:
  // A part of C's columns, and the spans [first_span, end_span) of k, whose B is packed at once.
  struct Round {
    Cut cols;  // of tasks; multiples of panel_cols, from `origin` on
    std::int64_t origin, first_span, end_span;
    const float* packed;
  };

  Round round_at(std::int64_t col, std::int64_t span, const float* packed) const;
  std::int64_t spans_per_round() const;
  Cut cut_columns(std::int64_t cols) const;
  void pack_columns(float* dst, const T* b, const Round& round) const;
  void run_tasks(const Round& round, float* c, const T* a, const T* bias, bool accumulate) const;
  void run_task(const Round& round, std::int64_t row_tile, std::int64_t col_task, float* c,
                const T* a, const T* bias, bool accumulate) const;
  std::int64_t begin_of_span(std::int64_t span) const;
  std::int64_t length_of_span(std::int64_t span) const {
    return begin_of_span(span + 1) - begin_of_span(span);
  }

  GemmProblem problem_;
  Cut rows_;
  std::vector<std::int64_t> k_begins_;  // of the blocks of k, and k
  Cut spans_;                           // of the blocks
};

}  // namespace trireme::cpu
