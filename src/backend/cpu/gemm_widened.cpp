// Converts blocks of A and B to float in the workspace and accumulates oneDNN's float products.
#include "backend/cpu/gemm_widened.h"

#include <algorithm>

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
    b_floats = round_up(p.b_transposed ? n * k : k * spread_rows(n), 16);
    c_floats = keeps_c ? round_up(m * n, 16) : 0;
  }
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
  std::array<std::array<std::array<std::unique_ptr<GemmEngine<float>>, 2>, 2>, 2> products;
  BlockSizes sizes;

  Impl(const GemmProblem& p, Isa set);
  void make(bool last_m, bool last_n, bool last_k, Isa set);
  void run_column(C* c, const T* a, const T* b, const T* bias, bool accumulate, char* workspace,
                  const Block& m, const Block& n) const;
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
  p.lda = p.a_transposed ? spread_rows(p.m) : p.k;
  p.ldb = p.b_transposed ? p.k : spread_rows(p.n);
  if (!float_result) p.ldc = p.n;
  products[last_m][last_n][last_k] = make_float_gemm(p, set);
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

// Processes all of k for one block of C.
template <class T, class C>
void WidenedGemm<T, C>::Impl::run_column(C* c, const T* a, const T* b, const T* bias,
                                         bool accumulate, char* workspace, const Block& m,
                                         const Block& n) const {
  const GemmProblem& p = problem;
  float* a_block = reinterpret_cast<float*>(workspace);
  float* b_block = a_block + sizes.a_floats;
  float* c_block = b_block + sizes.b_floats;
  C* c_begin = c + m.begin * p.ldc + n.begin;
  for (std::int64_t begin = 0; begin < p.k; begin += max_k) {
    const Block k = block(p.k, max_k, begin);
    if (p.a_transposed) {
      widen_block(a_block, spread_rows(m.length), a + k.begin * p.lda + m.begin, k.length, m.length,
                  p.lda);
    } else {
      widen_block(a_block, k.length, a + m.begin * p.lda + k.begin, m.length, k.length, p.lda);
    }
    if (p.b_transposed) {
      widen_block(b_block, k.length, b + n.begin * p.ldb + k.begin, n.length, k.length, p.ldb);
    } else {
      widen_block(b_block, spread_rows(n.length), b + k.begin * p.ldb + n.begin, k.length, n.length,
                  p.ldb);
    }
    const GemmEngine<float>& product = *products[m.is_last][n.is_last][k.is_last];
    if constexpr (float_result) {
      product.run(c_begin, a_block, b_block, nullptr, accumulate || begin > 0, nullptr);
    } else {
      product.run(c_block, a_block, b_block, nullptr, begin > 0, nullptr);
    }
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
  for (std::int64_t m = 0; m < p.m; m += max_mn) {
    for (std::int64_t n = 0; n < p.n; n += max_mn) {
      impl_->run_column(static_cast<C*>(c), a, b, bias, accumulate, static_cast<char*>(workspace),
                        block(p.m, max_mn, m), block(p.n, max_mn, n));
    }
  }
}

template class WidenedGemm<bf16, bf16>;
template class WidenedGemm<bf16, float>;
template class WidenedGemm<f16, f16>;
template class WidenedGemm<f16, float>;

}  // namespace trireme::cpu
