// Tiles computed by oneDNN's general product, which packs its operands itself; copies only operands
// that it would pack slowly.
#include "backend/cpu/gemm_float.h"

#include <dnnl.h>

#include <algorithm>

#include "backend/cpu/gemm_dnnl.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

bool copies_a(const GemmProblem& p) {
  return p.a_transposed && rows_collide(p.lda);
}
bool copies_b(const GemmProblem& p) {
  return !p.b_transposed && rows_collide(p.ldb);
}

// Space for k rows of a panel, for any split into tiles.
std::int64_t panel_floats(std::int64_t size, std::int64_t tile, std::int64_t k,
                          std::int64_t limit) {
  constexpr std::int64_t cache_line = 16;
  const std::int64_t width = std::min(size, std::max(limit / k, tile));
  return round_up(k * (width + cache_line), cache_line);
}

std::int64_t a_panel_floats(const GemmProblem& p, std::int64_t limit) {
  return copies_a(p) ? panel_floats(p.m, most_tile_rows, p.k, limit) : 0;
}
std::int64_t b_panel_floats(const GemmProblem& p, std::int64_t limit) {
  return copies_b(p) ? panel_floats(p.n, most_tile_cols, p.k, limit) : 0;
}

// Copies columns [begin, end) of k rows.
void copy_panel(float* dst, std::int64_t pitch, const float* src, std::int64_t ld, std::int64_t k,
                std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t rows_per_task = 32;
  parallel_ranges(k, rows_per_task, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row)
      std::copy(src + row * ld + begin, src + row * ld + end, dst + row * pitch);
  });
}

}  // namespace

FloatGemm::Panels::Panels(const Cut& cut, std::int64_t k, bool copies, std::int64_t limit)
    : copied(copies), tiles(cut.count()), pitch(0) {
  if (!copied) return;
  tiles = std::clamp<std::int64_t>(limit / (k * cut.piece), 1, cut.count());
  pitch = spread_rows(std::min(cut.size, tiles * cut.piece));
}

FloatGemm::FloatGemm(const GemmProblem& problem, std::int64_t limit)
    : problem_(problem),
      tiling_(choose_tiling(problem)),
      a_(tiling_.rows, problem.k, copies_a(problem), limit),
      b_(tiling_.cols, problem.k, copies_b(problem), limit),
      a_floats_(a_panel_floats(problem, limit)) {
  prepare_dnnl();
}

std::int64_t FloatGemm::workspace_bytes(const GemmProblem& problem, std::int64_t limit) {
  return (a_panel_floats(problem, limit) + b_panel_floats(problem, limit)) *
         static_cast<std::int64_t>(sizeof(float));
}

void FloatGemm::run_tile(std::int64_t row, std::int64_t col, float* c, const Sources& from,
                         const float* bias, bool accumulate) const {
  const GemmProblem& p = problem_;
  const std::int64_t m = tiling_.rows.begin(row), n = tiling_.cols.begin(col);
  const std::int64_t rows = tiling_.rows.length(row), cols = tiling_.cols.length(col);
  const float* const a = from.a + (p.a_transposed ? m - from.a_origin : m * from.lda);
  const float* const b = from.b + (p.b_transposed ? n * from.ldb : n - from.b_origin);
  float* const to = c + m * p.ldc + n;
  if (bias) start_with_bias(to, rows, cols, p.ldc, bias + n, accumulate);
  const float before = accumulate || bias ? 1 : 0;
  const dnnl_status_t status =
      dnnl_sgemm(p.a_transposed ? 'T' : 'N', p.b_transposed ? 'T' : 'N', rows, cols, p.k, 1, a,
                 from.lda, b, from.ldb, before, to, p.ldc);
  if (status != dnnl_success) fail("oneDNN refused a product: status {}", static_cast<int>(status));
}

void FloatGemm::run(void* c, const float* a, const float* b, const float* bias, bool accumulate,
                    void* workspace) const {
  const auto& [rows, cols] = tiling_;
  Sources from{a, b, problem_.lda, problem_.ldb};
  float* const a_panel = static_cast<float*>(workspace);
  float* const b_panel = a_panel + a_floats_;
  for (std::int64_t col = 0; col < cols.count(); col += b_.tiles) {
    const std::int64_t end_col = std::min(col + b_.tiles, cols.count());
    if (b_.copied) {
      from.b = b_panel, from.ldb = b_.pitch, from.b_origin = cols.begin(col);
      copy_panel(b_panel, b_.pitch, b, problem_.ldb, problem_.k, cols.begin(col),
                 cols.end(end_col - 1));
    }
    for (std::int64_t row = 0; row < rows.count(); row += a_.tiles) {
      const std::int64_t end_row = std::min(row + a_.tiles, rows.count());
      const bool is_there = col > 0 && a_.tiles == rows.count();
      if (a_.copied && !is_there) {
        from.a = a_panel, from.lda = a_.pitch, from.a_origin = rows.begin(row);
        copy_panel(a_panel, a_.pitch, a, problem_.lda, problem_.k, rows.begin(row),
                   rows.end(end_row - 1));
      }
      const std::int64_t width = end_col - col;
      parallel_for((end_row - row) * width, [&](std::int64_t tile) {
        prepare_dnnl();
        run_tile(row + tile / width, col + tile % width, static_cast<float*>(c), from, bias,
                 accumulate);
      });
    }
  }
}

std::unique_ptr<GemmEngine<float>> make_float_gemm(const GemmProblem& problem, Isa set) {
  if (set == Isa::avx2) return std::make_unique<FloatGemm>(problem);
  return std::make_unique<DnnlGemm<float, float>>(problem);
}

std::int64_t float_gemm_workspace(const GemmProblem& problem, Isa set) {
  return set == Isa::avx2 ? FloatGemm::workspace_bytes(problem) : 0;
}

}  // namespace trireme::cpu
