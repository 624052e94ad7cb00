// Sums tiles of C over k in order; tiles are independent, so results do not depend on threads.
#include "backend/cpu/gemm_reference.h"

#include <algorithm>

#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

constexpr std::int64_t tile = 32;

// sums[i][j] = A[m + i, :] B[:, n + j]
void multiply_tile(const GemmProblem& p, double (&sums)[tile][tile], const double* a,
                   const double* b, std::int64_t m, std::int64_t n) {
  const std::int64_t rows = std::min(tile, p.m - m), cols = std::min(tile, p.n - n);
  const std::int64_t a_row = p.a_transposed ? 1 : p.lda, a_step = p.a_transposed ? p.lda : 1;
  const std::int64_t b_col = p.b_transposed ? p.ldb : 1, b_step = p.b_transposed ? 1 : p.ldb;
  for (std::int64_t k = 0; k < p.k; ++k) {
    double b_line[tile] = {};
    for (std::int64_t j = 0; j < cols; ++j) b_line[j] = b[(n + j) * b_col + k * b_step];
    for (std::int64_t i = 0; i < rows; ++i) {
      const double factor = a[(m + i) * a_row + k * a_step];
      for (std::int64_t j = 0; j < tile; ++j) sums[i][j] += factor * b_line[j];
    }
  }
}

}  // namespace

void ReferenceGemm::run(void* c, const double* a, const double* b, const double* bias,
                        bool accumulate, void* /*workspace*/) const {
  const GemmProblem& p = problem_;
  const std::int64_t tile_cols = ceil_div(p.n, tile);
  parallel_for(ceil_div(p.m, tile) * tile_cols, [&](std::int64_t task) {
    const std::int64_t m = task / tile_cols * tile, n = task % tile_cols * tile;
    double sums[tile][tile] = {};
    multiply_tile(p, sums, a, b, m, n);
    for (std::int64_t i = 0; i < std::min(tile, p.m - m); ++i) {
      double* row = static_cast<double*>(c) + (m + i) * p.ldc + n;
      for (std::int64_t j = 0; j < std::min(tile, p.n - n); ++j) {
        const double sum = sums[i][j] + (bias ? bias[n + j] : 0.0);
        row[j] = accumulate ? row[j] + sum : sum;
      }
    }
  });
}

}  // namespace trireme::cpu
