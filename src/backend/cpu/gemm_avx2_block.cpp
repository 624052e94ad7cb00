// Packing and multiplication, compiled for AVX2 without contraction: fused operations are explicit.
#include "backend/cpu/gemm_avx2_block.h"

#include <immintrin.h>

#include "backend/cpu/gemm_convert.h"
#include "backend/cpu/gemm_load8.h"

namespace trireme::cpu::avx2 {
namespace {

#define TRIREME_UNROLLED _Pragma("GCC unroll 6")

// Address of A's element [row, k] in a group.
template <bool by_rows>
[[gnu::always_inline]] inline const float* element(const float* a, std::int64_t row,
                                                   std::int64_t k) {
  return by_rows ? a + row * packed_row_floats + k : a + k * group_rows + row;
}

template <int rows, int vectors>
using Sums = __m256[rows][vectors];

template <int rows, int vectors, bool by_rows>
[[gnu::always_inline]] inline void add_products(Sums<rows, vectors>& sums, const float* a,
                                                const float* b, std::int64_t k) {
  __m256 columns[vectors];
  TRIREME_UNROLLED
  for (int v = 0; v < vectors; ++v) columns[v] = _mm256_load_ps(b + k * panel_cols + v * 8);
  TRIREME_UNROLLED
  for (int r = 0; r < rows; ++r) {
    const __m256 factor = _mm256_broadcast_ss(element<by_rows>(a, r, k));
    TRIREME_UNROLLED
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = is_fused(rows) ? _mm256_fmadd_ps(factor, columns[v], sums[r][v])
                                  : _mm256_add_ps(sums[r][v], _mm256_mul_ps(factor, columns[v]));
    }
  }
}

template <int rows, int vectors, bool by_rows>
[[gnu::always_inline]] inline void sum_products(Sums<rows, vectors>& sums, const float* a,
                                                const float* b, std::int64_t k) {
  constexpr int chains = chains_of(rows, vectors);
  Sums<rows, vectors> second;
  TRIREME_UNROLLED
  for (int r = 0; r < rows; ++r) {
    TRIREME_UNROLLED
    for (int v = 0; v < vectors; ++v) sums[r][v] = second[r][v] = _mm256_setzero_ps();
  }
  std::int64_t at = 0;
#pragma GCC unroll 4
  for (; at + chains <= k; at += chains) {
    add_products<rows, vectors, by_rows>(sums, a, b, at);
    if constexpr (chains == 2) add_products<rows, vectors, by_rows>(second, a, b, at + 1);
  }
  if constexpr (chains == 2) {
    TRIREME_UNROLLED
    for (int r = 0; r < rows; ++r) {
      TRIREME_UNROLLED
      for (int v = 0; v < vectors; ++v) sums[r][v] = _mm256_add_ps(sums[r][v], second[r][v]);
    }
    if (at < k) add_products<rows, vectors, by_rows>(sums, a, b, at);
  }
}

// Columns of one panel; `mask` selects those of its last vector, if that is not full.
struct Panel {
  const float* b;
  float* c;
  __m256i mask;
};

// Stores the sums of a block of k, or adds them to C.
template <int rows, int vectors, bool masked>
[[gnu::always_inline]] inline void store_sums(const Sums<rows, vectors>& sums, float* c,
                                              std::int64_t ldc, const Panel& panel, bool add) {
  TRIREME_UNROLLED
  for (int r = 0; r < rows; ++r) {
    TRIREME_UNROLLED
    for (int v = 0; v < vectors; ++v) {
      float* const to = c + r * ldc + v * 8;
      if (masked && v == vectors - 1) {
        const __m256 before = _mm256_maskload_ps(to, panel.mask);
        _mm256_maskstore_ps(to, panel.mask, add ? _mm256_add_ps(before, sums[r][v]) : sums[r][v]);
      } else {
        _mm256_storeu_ps(to, add ? _mm256_add_ps(_mm256_loadu_ps(to), sums[r][v]) : sums[r][v]);
      }
    }
  }
}

// Not inlined: its sums need all registers.
template <int rows, int vectors, bool by_rows, bool masked>
[[gnu::noinline]] void multiply_group(const Block& block, const float* a, const Panel& panel,
                                      float* c) {
  TRIREME_UNROLLED
  for (int r = 0; r < rows; ++r) __builtin_prefetch(c + r * block.ldc, 1);
  bool add = block.accumulate;
  const float* b = panel.b;
  for (std::int64_t i = 0; i < block.k_blocks; ++i, add = true) {
    const std::int64_t k = block.k_begins[i + 1] - block.k_begins[i];
    Sums<rows, vectors> sums;
    sum_products<rows, vectors, by_rows>(sums, a, b, k);
    store_sums<rows, vectors, masked>(sums, c, block.ldc, panel, add);
    a = element<by_rows>(a, 0, k);
    b += k * panel_cols;
  }
}

template <int vectors, bool by_rows, bool masked>
void multiply_last_group(const Block& block, int rows, const float* a, const Panel& panel,
                         float* c) {
  switch (rows) {
    case 1:
      return multiply_group<1, vectors, by_rows, masked>(block, a, panel, c);
    case 2:
      return multiply_group<2, vectors, by_rows, masked>(block, a, panel, c);
    case 3:
      return multiply_group<3, vectors, by_rows, masked>(block, a, panel, c);
    case 4:
      return multiply_group<4, vectors, by_rows, masked>(block, a, panel, c);
    case 5:
      return multiply_group<5, vectors, by_rows, masked>(block, a, panel, c);
    default:
      return;
  }
}

template <int vectors, bool by_rows, bool masked>
void multiply_panel(const Block& block, const Panel& panel) {
  const std::int64_t group = group_floats(block.k());
  const float* a = block.a;
  float* c = panel.c;
  std::int64_t piece = 0;
  for (std::int64_t row = 0; row < block.rows; row += piece) {
    piece = next_row_piece(block.rows - row, block.b_transposed);
    std::int64_t rest = piece;
    for (; rest >= group_rows; rest -= group_rows, c += group_rows * block.ldc) {
      multiply_group<group_rows, vectors, by_rows, masked>(block, a, panel, c);
      a += by_rows ? group_rows * packed_row_floats : group;
    }
    multiply_last_group<vectors, by_rows, masked>(block, static_cast<int>(rest), a, panel, c);
    a += by_rows ? rest * packed_row_floats : rest > 0 ? group : 0;
    c += rest * block.ldc;
  }
}

template <bool by_rows>
void multiply_panels(const Block& block) {
  for (std::int64_t col = 0; col < block.cols; col += panel_cols) {
    const std::int64_t rest = block.cols - col;
    Panel panel{block.b + col * block.k(), block.c + col, {}};
    if (rest >= panel_cols) {
      multiply_panel<2, by_rows, false>(block, panel);
      continue;
    }
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const auto selected = static_cast<int>(rest > 8 ? rest - 8 : rest);
    panel.mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(selected), places);
    if (rest > 8) {
      multiply_panel<2, by_rows, true>(block, panel);
    } else {
      multiply_panel<1, by_rows, true>(block, panel);
    }
  }
}

// dst[j * panel_cols + i] = src[i * ld + j] for i, j in [0, 8).
template <class T>
[[gnu::always_inline]] inline void transpose8(float* dst, const T* src, std::int64_t ld) {
  __m256 a[8], b[8];
  TRIREME_UNROLLED
  for (int i = 0; i < 8; ++i) a[i] = load8(src + i * ld);
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
    a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_store_ps(dst + i * panel_cols, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
    _mm256_store_ps(dst + (i + 4) * panel_cols, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
  }
}

// One panel of B whose k is contiguous.
template <class T>
void pack_columns(float* dst, const T* src, std::int64_t ld, std::int64_t cols, std::int64_t k) {
  if (cols < panel_cols) std::fill_n(dst, k * panel_cols, 0.0F);
  for (std::int64_t first = 0; first < cols; first += 8) {
    const T* from = src + first * ld;
    std::int64_t at = 0;
    if (cols - first >= 8) {
      for (; at + 8 <= k; at += 8) transpose8(dst + at * panel_cols + first, from + at, ld);
    }
    for (; at < k; ++at) {
      for (std::int64_t i = 0; i < std::min<std::int64_t>(8, cols - first); ++i)
        dst[at * panel_cols + first + i] = static_cast<float>(from[i * ld + at]);
    }
  }
}

// One row of B in each of its panels, `panel_floats` apart.
template <class T>
void pack_row(float* dst, std::int64_t panel_floats, const T* src, std::int64_t cols) {
  for (; cols >= panel_cols; cols -= panel_cols, src += panel_cols, dst += panel_floats) {
    _mm256_store_ps(dst, load8(src));
    _mm256_store_ps(dst + 8, load8(src + 8));
  }
  if (cols == 0) return;
  for (std::int64_t i = 0; i < panel_cols; ++i)
    dst[i] = i < cols ? static_cast<float>(src[i]) : 0.0F;
}

// One k of a piece of A in each of its groups. The second half of a store lies where the next k
// goes. Returns where the next piece goes.
template <class T>
float* pack_groups(float* dst, std::int64_t group, const T* src, std::int64_t rows,
                   std::int64_t readable) {
  for (std::int64_t row = 0; row < rows; row += group_rows, dst += group) {
    if (row + 8 <= readable) {
      _mm256_storeu_ps(dst, load8(src + row));
    } else {
      for (std::int64_t i = 0; i < std::min(group_rows, rows - row); ++i)
        dst[i] = static_cast<float>(src[row + i]);
    }
  }
  return dst;
}

}  // namespace

template <class T>
void pack_a(float* dst, const Source<T>& a, bool b_transposed, std::int64_t readable) {
  if (a.k_contiguous) return widen(dst, packed_row_floats, a.data, a.vectors, a.k, a.ld);
  const std::int64_t group = group_floats(a.k);
  for (std::int64_t k = 0; k < a.k; ++k) {
    const T* const from = a.data + k * a.ld;
    float* to = dst + k * group_rows;
    std::int64_t piece = 0;
    for (std::int64_t row = 0; row < a.vectors; row += piece) {
      piece = next_row_piece(a.vectors - row, b_transposed);
      to = pack_groups(to, group, from + row, piece, readable - row);
    }
  }
}

template <class T>
void pack_b(float* dst, const Source<T>& b) {
  const std::int64_t panel_floats = b.k * panel_cols;
  if (b.k_contiguous) {
    for (std::int64_t col = 0; col < b.vectors; col += panel_cols, dst += panel_floats)
      pack_columns(dst, b.data + col * b.ld, b.ld, std::min(panel_cols, b.vectors - col), b.k);
    return;
  }
  for (std::int64_t k = 0; k < b.k; ++k)
    pack_row(dst + k * panel_cols, panel_floats, b.data + k * b.ld, b.vectors);
}

void multiply(const Block& block) {
  block.a_by_rows ? multiply_panels<true>(block) : multiply_panels<false>(block);
}

template void pack_a(float*, const Source<float>&, bool, std::int64_t);
template void pack_a(float*, const Source<bf16>&, bool, std::int64_t);
template void pack_a(float*, const Source<f16>&, bool, std::int64_t);
template void pack_b(float*, const Source<float>&);
template void pack_b(float*, const Source<bf16>&);
template void pack_b(float*, const Source<f16>&);

}  // namespace trireme::cpu::avx2
