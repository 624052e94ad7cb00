// Accumulates float products of blocks of A and B, which are converted to float in the workspace
// where the engine of floats does not do it.
#include "backend/cpu/gemm_widened.h"

#include <algorithm>

#include "backend/cpu/gemm_avx2.h"
#include "backend/cpu/gemm_convert.h"
#include "backend/cpu/gemm_float.h"
#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

// A block of A and of B takes 8 MB at most, one of C 4 MB: they stay in the last-level cache.
constexpr std::int64_t max_mn = 1024, max_k = 2048;

struct Block {
  std::int64_t begin, length;
  bool is_last;
};

Block block(std::int64_t size, std::int64_t step, std::int64_t begin) {
  return {begin, std::min(step, size - begin), begin + step >= size};
}

// Workspace of the blocks in floats.
struct BlockSizes {
  std::int64_t a_floats, b_floats, c_floats;

  BlockSizes(const GemmProblem& p, bool keeps_c) {
    const std::int64_t m = std::min(p.m, max_mn), n = std::min(p.n, max_mn);
    const std::int64_t k = std::min(p.k, max_k);
    a_floats = round_up(p.a_transposed ? k * spread_rows(m) : m * k, 16);
    // Avx2Gemm packs B where it does not lie widened.
    b_floats = round_up(
        std::max(p.b_transposed ? n * k : k * spread_rows(n), k * round_up(n, panel_cols)), 16);
    c_floats = keeps_c ? round_up(m * n, 16) : 0;
  }
};

// A product of blocks where they lie, or of blocks that were widened.
template <class T>
struct BlockProduct {
  std::unique_ptr<Avx2Gemm<T>> in_place;
  std::unique_ptr<GemmEngine<float>> of_floats;
};

constexpr std::int64_t rows_per_task = 32;

template <class T>
void widen_block(float* dst, std::int64_t ld_dst, const T* src, std::int64_t rows,
                 std::int64_t cols, std::int64_t ld) {
  parallel_ranges(rows, rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    widen(dst + begin * ld_dst, ld_dst, src + begin * ld, end - begin, cols, ld);
  });
}

}  // namespace

template <class T, class C>
struct WidenedGemm<T, C>::Impl {
  static constexpr bool float_result = std::is_same_v<C, float>;

  GemmProblem problem;
  // One product per block size: [last in m][last in n][last in k].
  std::array<std::array<std::array<BlockProduct<T>, 2>, 2>, 2> products;
  BlockSizes sizes;

  Impl(const GemmProblem& p, Isa set);
  void make(bool last_m, bool last_n, bool last_k, Isa set);
  void run_column(C* c, const T* a, const T* b, const T* bias, bool accumulate, char* workspace,
                  const Block& m, const Block& n, bool& has_b) const;
};

template <class T, class C>
WidenedGemm<T, C>::Impl::Impl(const GemmProblem& p, Isa set) : problem(p), sizes(p, !float_result) {
  for (int variant = 0; variant < 8; ++variant) {
    make((variant & 4) != 0, (variant & 2) != 0, (variant & 1) != 0, set);
  }
}

template <class T, class C>
void WidenedGemm<T, C>::Impl::make(bool last_m, bool last_n, bool last_k, Isa set) {
  const auto length = [](std::int64_t size, std::int64_t step, bool last) {
    const std::int64_t inner = (ceil_div(size, step) - 1) * step;
    return last ? size - inner : std::min(inner, step);
  };
  GemmProblem p = problem;
  p.m = length(p.m, max_mn, last_m);
  p.n = length(p.n, max_mn, last_n);
  p.k = length(p.k, max_k, last_k);
  if (p.m == 0 || p.n == 0 || p.k == 0) return;  // a direction with one block has no interior ones
  if (!float_result) p.ldc = p.n;
  BlockProduct<T>& product = products[last_m][last_n][last_k];
  if (runs_on_avx2_gemm(p, set)) {
    product.in_place = std::make_unique<Avx2Gemm<T>>(p);
    return;
  }
  p.lda = p.a_transposed ? spread_rows(p.m) : p.k;
  p.ldb = p.b_transposed ? p.k : spread_rows(p.n);
  product.of_floats = make_float_gemm(p, set);
}

template <class T, class C>
WidenedGemm<T, C>::WidenedGemm(const GemmProblem& problem, Isa set)
    : impl_(std::make_unique<Impl>(problem, set)) {}

template <class T, class C>
WidenedGemm<T, C>::~WidenedGemm() = default;

template <class T, class C>
std::int64_t WidenedGemm<T, C>::workspace_bytes(const GemmProblem& problem) {
  const BlockSizes sizes(problem, !Impl::float_result);
  return (sizes.a_floats + sizes.b_floats + sizes.c_floats) *
         static_cast<std::int64_t>(sizeof(float));
}

// Processes all of k for one block of C. has_b: all of B's columns are still packed in the
// workspace.
template <class T, class C>
void WidenedGemm<T, C>::Impl::run_column(C* c, const T* a, const T* b, const T* bias,
                                         bool accumulate, char* workspace, const Block& m,
                                         const Block& n, bool& has_b) const {
  const GemmProblem& p = problem;
  float* a_block = reinterpret_cast<float*>(workspace);
  float* b_block = a_block + sizes.a_floats;
  float* c_block = b_block + sizes.b_floats;
  C* c_begin = c + m.begin * p.ldc + n.begin;
  for (std::int64_t begin = 0; begin < p.k; begin += max_k) {
    const Block k = block(p.k, max_k, begin);
    const T* a_begin = a + (p.a_transposed ? k.begin * p.lda + m.begin : m.begin * p.lda + k.begin);
    const T* b_begin = b + (p.b_transposed ? n.begin * p.ldb + k.begin : k.begin * p.ldb + n.begin);
    const auto& [in_place, of_floats] = products[m.is_last][n.is_last][k.is_last];
    void* const to = float_result ? static_cast<void*>(c_begin) : c_block;
    const bool adds = (float_result && accumulate) || begin > 0;
    if (in_place && has_b) {
      in_place->run_again(to, a_begin, adds, b_block);
      continue;
    }
    has_b = in_place && p.k <= max_k && in_place->packs_once();
    if (in_place) {
      in_place->run(to, a_begin, b_begin, nullptr, adds, b_block);
      continue;
    }
    if (p.a_transposed) {
      widen_block(a_block, spread_rows(m.length), a_begin, k.length, m.length, p.lda);
    } else {
      widen_block(a_block, k.length, a_begin, m.length, k.length, p.lda);
    }
    if (p.b_transposed) {
      widen_block(b_block, k.length, b_begin, n.length, k.length, p.ldb);
    } else {
      widen_block(b_block, spread_rows(n.length), b_begin, k.length, n.length, p.ldb);
    }
    of_floats->run(to, a_block, b_block, nullptr, adds, nullptr);
  }
  if constexpr (!float_result) {
    parallel_ranges(m.length, rows_per_task, [&](std::int64_t first, std::int64_t end) {
      narrow(c_begin + first * p.ldc, c_block + first * n.length, end - first, n.length, p.ldc,
             bias ? bias + n.begin : nullptr, accumulate);
    });
  }
}

template <class T, class C>
void WidenedGemm<T, C>::run(void* c, const T* a, const T* b, const T* bias, bool accumulate,
                            void* workspace) const {
  const GemmProblem& p = impl_->problem;
  for (std::int64_t n = 0; n < p.n; n += max_mn) {
    bool has_b = false;
    for (std::int64_t m = 0; m < p.m; m += max_mn) {
      impl_->run_column(static_cast<C*>(c), a, b, bias, accumulate, static_cast<char*>(workspace),
                        block(p.m, max_mn, m), block(p.n, max_mn, n), has_b);
    }
  }
}

template class WidenedGemm<bf16, bf16>;
template class WidenedGemm<bf16, float>;
template class WidenedGemm<f16, f16>;
template class WidenedGemm<f16, float>;

}  // namespace trireme::cpu
