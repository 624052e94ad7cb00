// Tiles computed by oneDNN's general product, which packs its operands itself.
#include "backend/cpu/gemm_float.h"

#include <dnnl.h>

#include <cstdlib>

#include "backend/cpu/gemm_avx2.h"
#include "backend/cpu/gemm_dnnl.h"
#include "base/error.h"
#include "base/portable_math.h"
#include "base/thread_pool.h"

namespace trireme::cpu {

FloatGemm::FloatGemm(const GemmProblem& problem)
    : problem_(problem), tiling_(choose_tiling(problem)) {
  prepare_dnnl();
}

void FloatGemm::run(void* c, const float* a, const float* b, const float* bias, bool accumulate,
                    void* /*workspace*/) const {
  const GemmProblem& p = problem_;
  const auto& [row_cut, col_cut] = tiling_;
  parallel_for(row_cut.count() * col_cut.count(), [&](std::int64_t tile) {
    prepare_dnnl();
    const std::int64_t row = tile / col_cut.count(), col = tile % col_cut.count();
    const std::int64_t m = row_cut.begin(row), n = col_cut.begin(col);
    const std::int64_t rows = row_cut.length(row), cols = col_cut.length(col);
    float* const to = static_cast<float*>(c) + m * p.ldc + n;
    if (bias) start_with_bias(to, rows, cols, p.ldc, bias + n, accumulate);
    const float before = accumulate || bias ? 1 : 0;
    const dnnl_status_t status =
        dnnl_sgemm(p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', rows, cols, p.k, 1,
                   a + (p.a_transposed ? m : m * p.lda), p.lda,
                   b + (p.b_transposed ? n * p.ldb : n), p.ldb, before, to, p.ldc);
    if (status != dnnl_success)
      fail("oneDNN refused a product: status {}", static_cast<int>(status));
  });
}

bool runs_on_avx2_gemm(const GemmProblem& problem, Isa set) {
  static const bool only_onednn = std::getenv("TRIREME_ONEDNN") != nullptr;
  if (math::is_portable()) return true;
  return set == Isa::avx2 && !only_onednn && has_known_order(problem);
}

std::unique_ptr<GemmEngine<float>> make_float_gemm(const GemmProblem& problem, Isa set) {
  if (set != Isa::avx2) return std::make_unique<DnnlGemm<float, float>>(problem);
  if (runs_on_avx2_gemm(problem, set)) return std::make_unique<Avx2Gemm<float>>(problem);
  return std::make_unique<FloatGemm>(problem);
}

std::int64_t float_gemm_workspace(const GemmProblem& problem, Isa set) {
  return set == Isa::avx2 ? Avx2Gemm<float>::workspace_bytes(problem) : 0;
}

}  // namespace trireme::cpu
