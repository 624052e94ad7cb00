// Tile products of attention in bf16 on AMX: the same interface as FmaEngine, float accumulation.
//
// The matrix unit takes left operands as rows, and right operands with pairs of inner indices side
// by side ("pairs": element (k, n) is word n of row k / 2). Everything is packed so that a tile is
// 16 rows of 64 bytes; sizes are padded to multiples of 32, so one configuration serves all.
#pragma once

#include "backend/cpu/kernels/attention_math.h"
#include "backend/cpu/kernels/attention_view.h"

#ifdef __AMX_BF16__
#define TRIREME_HAS_AMX

namespace trireme::cpu::TRIREME_ISA {

struct AmxEngine {
  using Storage = bf16;
  using A = float;
  using Packed = bf16;

  static constexpr int lanes = Vec<float>::lanes;
  static constexpr bool shares_left = false;

  // Left operand [m, k]: element (i, j) is data[i * row + j].
  struct Left {
    const bf16* data;
    std::int64_t row;
  };
  // Right operand [k, n]: element (i, j) is data[i / 2 * row + 2 * j + i % 2].
  struct Right {
    const bf16* data;
    std::int64_t row;
  };

  // All eight tiles of this thread, at full size; given back at the end, since other libraries on
  // the same thread configure their own.
  struct Session {
    Session() {
      struct alignas(64) Configuration {
        std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
        std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
      };
      static_assert(sizeof(Configuration) == 64);
      const Configuration configuration;
      barrier();
      _tile_loadconfig(&configuration);
    }
    ~Session() { _tile_release(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };

  static std::int64_t padded(std::int64_t head_dim) { return round_up(head_dim, 32); }

  // [padded_count, width]
  static void pack_left_tokens(bf16* dst, Rows<const bf16> src, std::int64_t count,
                               std::int64_t padded_count, std::int64_t head_dim) {
    const std::int64_t width = padded(head_dim);
    for (std::int64_t i = 0; i < padded_count; ++i) {
      for (std::int64_t d = 0; d < width; d += 32) {
        _mm512_storeu_si512(dst + i * width + d, columns(src, i, count, d, head_dim));
      }
    }
  }

  // [width, row]: the transpose.
  static void pack_left_columns(bf16* dst, std::int64_t row, Rows<const bf16> src,
                                std::int64_t count, std::int64_t padded_count,
                                std::int64_t head_dim) {
    alignas(64) std::uint32_t words[2][16 * 16];  // [half of 32 columns][pair of tokens][column]
    for (std::int64_t i = 0; i < padded_count; i += 32) {
      for (std::int64_t d = 0; d < padded(head_dim); d += 32) {
        for (int pair = 0; pair < 16; ++pair) {
          const __m512i even = columns(src, i + 2 * pair, count, d, head_dim);
          const __m512i odd = columns(src, i + 2 * pair + 1, count, d, head_dim);
          _mm512_store_si512(words[0] + pair * 16, low_pairs(even, odd));
          _mm512_store_si512(words[1] + pair * 16, high_pairs(even, odd));
        }
        for (int half = 0; half < 2; ++half) {
          transpose_words(reinterpret_cast<std::uint32_t*>(dst + (d + half * 16) * row + i),
                          row / 2, words[half], 16);
        }
      }
    }
  }

  // [padded_count, width] in pairs of tokens.
  static void pack_right_tokens(bf16* dst, Rows<const bf16> src, std::int64_t count,
                                std::int64_t padded_count, std::int64_t head_dim) {
    const std::int64_t width = padded(head_dim);
    for (std::int64_t i = 0; i < padded_count; i += 2) {
      for (std::int64_t d = 0; d < width; d += 32) {
        const __m512i even = columns(src, i, count, d, head_dim);
        const __m512i odd = columns(src, i + 1, count, d, head_dim);
        _mm512_storeu_si512(dst + i * width + 2 * d, low_pairs(even, odd));
        _mm512_storeu_si512(dst + i * width + 2 * d + 32, high_pairs(even, odd));
      }
    }
  }

  // [width, padded_count] in pairs of columns.
  static void pack_right_columns(bf16* dst, Rows<const bf16> src, std::int64_t count,
                                 std::int64_t padded_count, std::int64_t head_dim) {
    alignas(64) std::uint32_t words[16 * 16];  // [token][pair of columns]
    for (std::int64_t i = 0; i < padded_count; i += 16) {
      for (std::int64_t d = 0; d < padded(head_dim); d += 32) {
        for (int token = 0; token < 16; ++token) {
          _mm512_store_si512(words + token * 16, columns(src, i + token, count, d, head_dim));
        }
        transpose_words(reinterpret_cast<std::uint32_t*>(dst) + d / 2 * padded_count + i,
                        padded_count, words, 16);
      }
    }
  }

  static Left left_tokens(const bf16* tokens, const bf16*, std::int64_t first, std::int64_t width,
                          std::int64_t) {
    return {tokens + first * width, width};
  }
  static Left left_columns(const bf16*, const bf16* columns, std::int64_t first, std::int64_t,
                           std::int64_t row) {
    return {columns + first, row};
  }
  static Right right_tokens(const bf16* data, std::int64_t width) { return {data, 2 * width}; }
  static Right right_columns(const bf16* data, std::int64_t tokens) { return {data, 2 * tokens}; }

  template <int max_keys, int queries, bool as_left, bool as_right>
  struct Weights {
    alignas(64) bf16 rows[as_left ? max_keys * queries : 32];
    alignas(64) bf16 pairs[as_right ? max_keys * queries : 32];

    TRIREME_INLINE void put(std::int64_t key, int query, const Vec<float> (&w)[2][2]) {
      const __m512i even = (__m512i)_mm512_cvtne2ps_pbh(w[0][1].part[0], w[0][0].part[0]);
      const __m512i odd = (__m512i)_mm512_cvtne2ps_pbh(w[1][1].part[0], w[1][0].part[0]);
      if constexpr (as_left) {
        _mm512_store_si512(rows + key * queries + query, even);
        _mm512_store_si512(rows + (key + 1) * queries + query, odd);
      }
      if constexpr (as_right) {
        _mm512_store_si512(pairs + key * queries + 2 * query, low_pairs(even, odd));
        _mm512_store_si512(pairs + key * queries + 2 * query + 32, high_pairs(even, odd));
      }
    }
    Left left() const { return {rows, queries}; }
    Right right() const { return {pairs, 2 * queries}; }
  };

  // c = (accumulate ? c : 0) + left * right; m, n and k are multiples of 32.
  TRIREME_INLINE static void product(float* c, std::int64_t ldc, Left left, Right right,
                                     std::int64_t m, std::int64_t n, std::int64_t k,
                                     bool accumulate) {
    barrier();
    for (std::int64_t i = 0; i < m; i += 32) {
      for (std::int64_t j = 0; j < n; j += 32) {
        block(c + i * ldc + j, ldc, {left.data + i * left.row, left.row},
              {right.data + 2 * j, right.row}, k, accumulate);
      }
    }
    barrier();
  }

 private:
  // The tile intrinsics of GCC do not say that they read memory.
  static void barrier() { __asm__ volatile("" ::: "memory"); }

  // 32 x 32 of c in four tiles.
  TRIREME_INLINE static void block(float* c, std::int64_t ldc, Left left, Right right,
                                   std::int64_t k, bool accumulate) {
    const std::int64_t c_bytes = ldc * 4, left_bytes = left.row * 2, right_bytes = right.row * 2;
    float* below = c + 16 * ldc;
    if (accumulate) {
      _tile_loadd(0, c, c_bytes);
      _tile_loadd(1, c + 16, c_bytes);
      _tile_loadd(2, below, c_bytes);
      _tile_loadd(3, below + 16, c_bytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    const bf16* a = left.data;
    const bf16* b = right.data;
    for (std::int64_t p = 0; p < k; p += 32, a += 32, b += 16 * right.row) {
      _tile_loadd(4, a, left_bytes);
      _tile_loadd(6, b, right_bytes);
      _tile_loadd(7, b + 32, right_bytes);
      _tile_loadd(5, a + 16 * left.row, left_bytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, c_bytes);
    _tile_stored(1, c + 16, c_bytes);
    _tile_stored(2, below, c_bytes);
    _tile_stored(3, below + 16, c_bytes);
  }

  // Columns [d, d + 32) of a token; zeros behind `count` tokens and head_dim columns.
  TRIREME_INLINE static __m512i columns(Rows<const bf16> src, std::int64_t token,
                                        std::int64_t count, std::int64_t d,
                                        std::int64_t head_dim) {
    if (token >= count) return _mm512_setzero_si512();
    const std::int64_t rest = head_dim - d;
    const __mmask32 mask = rest >= 32 ? ~__mmask32{0} : (__mmask32{1} << rest) - 1;
    return _mm512_maskz_loadu_epi16(mask, src.row(token) + d);
  }

  // Words (even, odd) of the first or the last 16 columns.
  TRIREME_INLINE static __m512i low_pairs(__m512i even, __m512i odd) {
    return _mm512_permutex2var_epi16(even, pair_index(0), odd);
  }
  TRIREME_INLINE static __m512i high_pairs(__m512i even, __m512i odd) {
    return _mm512_permutex2var_epi16(even, pair_index(16), odd);
  }
  TRIREME_INLINE static __m512i pair_index(int first) {
    // Word i: column first + i of the first source below, of the second above.
    const __m512i step = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i spread = _mm512_mullo_epi32(step, _mm512_set1_epi32(0x00010001));
    return _mm512_add_epi16(spread, _mm512_set1_epi32((32 + first) << 16 | first));
  }
};

}  // namespace trireme::cpu::TRIREME_ISA

#endif
