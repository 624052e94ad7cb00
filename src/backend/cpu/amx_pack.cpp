// Compiled for AMX, as namespace amx, and for its emulation: amx_code() returns
// the one that may be called.
#include "backend/cpu/amx_pack.h"

#include <immintrin.h>

namespace trireme::cpu::TRIREME_ISA {
namespace {

constexpr std::int64_t tile_rows = 16;

__mmask32 mask32(std::int64_t count) {
  return count >= 32 ? 0xffffffffU : count <= 0 ? 0U : (1U << count) - 1;
}

// dst[j][i] = src[i][j] for 16 x 16 words of 32 bits; rows of src are ld bytes apart.
void transpose_words(char* dst, const char* src, std::int64_t ld) {
  __m512i r[16], t[16];
  for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_si512(src + i * ld);
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // r[4 g + c] holds, in its lane l, column 4 l + c of rows 4 g to 4 g + 3.
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 8; ++i) {
    _mm512_store_si512(dst + i * 64, _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88));
    _mm512_store_si512(dst + (i + 8) * 64, _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd));
  }
}

// Packs one tile of vectors with contiguous k: unchanged for A, transposed in pairs for B.
void pack_rows(char* dst, const bf16* src, std::int64_t ld, std::int64_t vectors, std::int64_t k,
               Side side) {
  alignas(64) char padded[tile_bytes];
  const bool whole = vectors >= tile_rows && k >= step_k;
  if (side == Side::b && whole) {
    transpose_words(dst, reinterpret_cast<const char*>(src), ld * 2);
    return;
  }
  char* rows = side == Side::a ? dst : padded;
  if (whole) {
    for (int i = 0; i < tile_rows; ++i) {
      _mm512_store_si512(rows + i * 64, _mm512_loadu_si512(src + i * ld));
    }
  } else {
    for (int i = 0; i < tile_rows; ++i) {
      const __m512i row =
          i < vectors ? _mm512_maskz_loadu_epi16(mask32(k), src + i * ld) : __m512i{};
      _mm512_store_si512(rows + i * 64, row);
    }
  }
  if (side == Side::b) transpose_words(dst, rows, 64);
}

// Packs both tiles of a step of vectors contiguous at each k: pairs of k are interleaved.
void pack_columns(char* dst, const bf16* src, std::int64_t ld, std::int64_t vectors, std::int64_t k,
                  Side side) {
  alignas(64) static constexpr std::uint16_t first_16[32] = {
      0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
      8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  alignas(64) char interleaved[step_bytes];
  char* pairs = side == Side::b ? dst : interleaved;
  const __m512i low = _mm512_load_si512(first_16);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  const __mmask32 mask = mask32(vectors);
  for (std::int64_t pair = 0; pair < tile_rows; ++pair) {
    const std::int64_t even = 2 * pair, odd = even + 1;
    const __m512i x = even < k ? _mm512_maskz_loadu_epi16(mask, src + even * ld) : __m512i{};
    const __m512i y = odd < k ? _mm512_maskz_loadu_epi16(mask, src + odd * ld) : __m512i{};
    char* row = pairs + pair * 64;
    _mm512_store_si512(row, _mm512_permutex2var_epi16(x, low, y));
    _mm512_store_si512(row + tile_bytes, _mm512_permutex2var_epi16(x, high, y));
  }
  if (side == Side::a) {
    transpose_words(dst, pairs, 64);
    transpose_words(dst + tile_bytes, pairs + tile_bytes, 64);
  }
}

// Reads memory along rows: all steps of a panel's first tile, then of its second.
void pack_vectors_along_k(char* dst, std::int64_t panel_bytes, const Operand& operand,
                          Range vectors, Range k) {
  for (std::int64_t tile = 0; tile < 2 * panels_of(vectors.length()); ++tile) {
    const std::int64_t vector = vectors.begin + tile * tile_rows, count = vectors.end - vector;
    const bf16* src = operand.data + (count > 0 ? vector * operand.ld : 0);
    char* out = dst + tile / 2 * panel_bytes + tile % 2 * tile_bytes;
    for (std::int64_t at = k.begin; at < k.end; at += step_k, out += step_bytes) {
      pack_rows(out, src + at, operand.ld, count, k.end - at, operand.side);
    }
  }
}

// Reads memory along rows: one step of all panels, then the next step.
void pack_vectors_across_k(char* dst, std::int64_t panel_bytes, const Operand& operand,
                           Range vectors, Range k) {
  for (std::int64_t at = k.begin; at < k.end; at += step_k, dst += step_bytes) {
    const bf16* src = operand.data + at * operand.ld;
    char* out = dst;
    for (std::int64_t v = vectors.begin; v < vectors.end; v += panel_vectors, out += panel_bytes) {
      pack_columns(out, src + v, operand.ld, vectors.end - v, k.end - at, operand.side);
    }
  }
}

}  // namespace

void pack(char* dst, std::int64_t panel_bytes, const Operand& operand, Range vectors, Range k) {
  if (operand.k_contiguous) {
    pack_vectors_along_k(dst, panel_bytes, operand, vectors, k);
  } else {
    pack_vectors_across_k(dst, panel_bytes, operand, vectors, k);
  }
}

}  // namespace trireme::cpu::TRIREME_ISA
