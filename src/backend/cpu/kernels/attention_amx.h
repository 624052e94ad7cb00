// Tile products of attention in bf16 on AMX: the same interface as FmaEngine, float accumulation.
//
// The matrix unit multiplies a left tile, 16 rows of 32 inner elements, by a right tile, 16 pairs
// of inner elements by 16 columns: element (k, n) lies at 32 * (k / 2) + 2 * n + k % 2. Operands
// are packed tile by tile, 1 KB each: rows at larger strides would collide in a few cache sets.
// Sizes are padded to multiples of 32, so one tile configuration serves all products.
#pragma once

#include "backend/cpu/attention_sizes.h"
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

  static constexpr std::int64_t tile = 512;  // elements

  // Left operand [m, k]: tile (i, j) of 16 rows by 32 inner elements is data + i * row + j * step.
  struct Left {
    const bf16* data;
    std::int64_t row, step;
  };
  // Right operand [k, n]: tile (i, j) of 32 inner elements by 16 columns is data + i * step + j *
  // tile.
  struct Right {
    const bf16* data;
    std::int64_t step;
  };

  // Configures all eight tiles of this thread at full size; released at the end, since other
  // libraries on the same thread configure their own.
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

   private:
    const FlushDenormals flush_;
  };

  static constexpr bool is_matrix_unit = true;
  static std::int64_t padded(std::int64_t head_dim) { return attention_columns(head_dim, true); }

  // Left operand [tokens, columns]; tiles along the columns first.
  static void pack_left_tokens(bf16* dst, Rows<const bf16> src, std::int64_t count,
                               std::int64_t padded_count, std::int64_t head_dim) {
    const std::int64_t width = padded(head_dim);
    for (std::int64_t i = 0; i < padded_count; ++i) {
      prefetch(src, i + prefetch_distance, count, head_dim);
      bf16* row = dst + i / 16 * 16 * width + i % 16 * 32;
      for (std::int64_t d = 0; d < width; d += 32) {
        _mm512_store_si512(row + d * 16, columns(src, i, count, d, head_dim));
      }
    }
  }

  // Left operand [columns, tokens]; tiles along the columns first.
  static void pack_left_columns(bf16* dst, Rows<const bf16> src, std::int64_t count,
                                std::int64_t padded_count, std::int64_t head_dim) {
    alignas(64) std::uint32_t words[2][16 * 16];  // [half of 32 columns][pair of tokens][column]
    for (std::int64_t i = 0; i < padded_count; i += 32) {
      for (std::int64_t d = 0; d < padded(head_dim); d += 32) {
        for (int pair = 0; pair < 16; ++pair) {
          if (d == 0) {
            prefetch(src, i + 2 * pair + prefetch_distance, count, head_dim);
            prefetch(src, i + 2 * pair + 1 + prefetch_distance, count, head_dim);
          }
          const __m512i even = columns(src, i + 2 * pair, count, d, head_dim);
          const __m512i odd = columns(src, i + 2 * pair + 1, count, d, head_dim);
          _mm512_store_si512(words[0] + pair * 16, low_pairs(even, odd));
          _mm512_store_si512(words[1] + pair * 16, high_pairs(even, odd));
        }
        for (int half = 0; half < 2; ++half, dst += tile) {
          transpose_words(reinterpret_cast<std::uint32_t*>(dst), 16, words[half], 16);
        }
      }
    }
  }

  // Right operand [tokens, columns]; tiles along the columns first.
  static void pack_right_tokens(bf16* dst, Rows<const bf16> src, std::int64_t count,
                                std::int64_t padded_count, std::int64_t head_dim) {
    const std::int64_t width = padded(head_dim);
    for (std::int64_t i = 0; i < padded_count; i += 2) {
      bf16* row = dst + i / 32 * 32 * width + i % 32 * 16;
      for (std::int64_t d = 0; d < width; d += 32) {
        const __m512i even = columns(src, i, count, d, head_dim);
        const __m512i odd = columns(src, i + 1, count, d, head_dim);
        _mm512_store_si512(row + d / 16 * tile, low_pairs(even, odd));
        _mm512_store_si512(row + d / 16 * tile + tile, high_pairs(even, odd));
      }
    }
  }

  // Right operand [columns, tokens]; tiles along the tokens first.
  static void pack_right_columns(bf16* dst, Rows<const bf16> src, std::int64_t count,
                                 std::int64_t padded_count, std::int64_t head_dim) {
    alignas(64) std::uint32_t words[16 * 16];  // [token][pair of columns]
    for (std::int64_t d = 0; d < padded(head_dim); d += 32) {
      for (std::int64_t i = 0; i < padded_count; i += 16, dst += tile) {
        for (int token = 0; token < 16; ++token) {
          if (d == 0) prefetch(src, i + token + prefetch_distance, count, head_dim);
          _mm512_store_si512(words + token * 16, columns(src, i + token, count, d, head_dim));
        }
        transpose_words(reinterpret_cast<std::uint32_t*>(dst), 16, words, 16);
      }
    }
  }

  static Left left_tokens(const bf16* data, std::int64_t first, std::int64_t width) {
    return {data + first * width, 16 * width, tile};
  }
  static Left left_columns(const bf16* data, std::int64_t first, std::int64_t width) {
    return {data + first * width, tile, 32 * width};
  }
  static Right right_tokens(const bf16* data, std::int64_t width) { return {data, 32 * width}; }
  // Right operand from `tokens` packed tokens, starting at token `first`.
  static Right right_columns(const bf16* data, std::int64_t tokens, std::int64_t first) {
    return {data + first * 32, 32 * tokens};
  }

  template <int max_keys, int queries, bool as_left, bool as_right>
  struct Weights {
    alignas(64) bf16 left_tiles[as_left ? max_keys * queries : 32] = {};
    alignas(64) bf16 right_tiles[as_right ? max_keys * queries : 32] = {};

    // Stores rows key and key + 1 of columns [query, query + 32).
    TRIREME_INLINE void put(std::int64_t key, int query, const Vec<float> (&w)[2][2]) {
      if constexpr (as_left) {
        bf16* row = left_tiles + key / 16 * 16 * queries + key % 16 * 32 + query * 16;
        _mm512_store_si512(row, (__m512i)_mm512_cvtne2ps_pbh(w[0][1].part[0], w[0][0].part[0]));
        _mm512_store_si512(row + 32,
                           (__m512i)_mm512_cvtne2ps_pbh(w[1][1].part[0], w[1][0].part[0]));
      }
      if constexpr (as_right) {
        bf16* row = right_tiles + key / 32 * 32 * queries + key % 32 * 16 + query / 16 * tile;
        _mm512_store_si512(row, round_to_pairs(w[0][0], w[1][0]));
        _mm512_store_si512(row + tile, round_to_pairs(w[0][1], w[1][1]));
      }
    }
    Left left() const { return {left_tiles, 16 * queries, tile}; }
    // Right operand starting at row `row`.
    Right right(std::int64_t row) const { return {right_tiles + row * queries, 32 * queries}; }
  };

  // c = (accumulate ? c : 0) + left * right; m, n and k are multiples of 32.
  static void product(float* c, std::int64_t ldc, Left left, Right right, std::int64_t m,
                      std::int64_t n, std::int64_t k, bool accumulate) {
    barrier();
    for (std::int64_t i = 0; i < m; i += 32) {
      for (std::int64_t j = 0; j < n; j += 32) {
        four_tiles(c + i * ldc + j, ldc, {left.data + i / 16 * left.row, left.row, left.step},
                   {right.data + j / 16 * tile, right.step}, k, accumulate);
      }
    }
  }

 private:
  // GCC's tile intrinsics do not declare that they read memory.
  static void barrier() { __asm__ volatile("" ::: "memory"); }

  // Computes 32 rows and columns of c.
  TRIREME_INLINE static void four_tiles(float* c, std::int64_t ldc, Left left, Right right,
                                        std::int64_t k, bool accumulate) {
    const std::int64_t c_bytes = ldc * 4;
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
    for (std::int64_t p = 0; p < k; p += 32, a += left.step, b += right.step) {
      _tile_loadd(4, a, 64);
      _tile_loadd(6, b, 64);
      _tile_loadd(7, b + tile, 64);
      _tile_loadd(5, a + left.row, 64);
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

  // Columns [d, d + 32) of a token; zeros after `count` tokens and head_dim columns.
  TRIREME_INLINE static __m512i columns(Rows<const bf16> src, std::int64_t token,
                                        std::int64_t count, std::int64_t d, std::int64_t head_dim) {
    if (token >= count) return _mm512_setzero_si512();
    const std::int64_t rest = head_dim - d;
    const __mmask32 mask = rest >= 32 ? ~__mmask32{0} : (__mmask32{1} << rest) - 1;
    return _mm512_maskz_loadu_epi16(mask, src.row(token) + d);
  }

  // The rows are far apart, so the hardware does not prefetch them.
  static constexpr int prefetch_distance = 32;
  TRIREME_INLINE static void prefetch(Rows<const bf16> src, std::int64_t token, std::int64_t count,
                                      std::int64_t head_dim) {
    if (token < count) prefetch_row<_MM_HINT_T1>(src.row(token), head_dim);
  }

  // Rounds words (low, high) to bf16, halves away from zero.
  TRIREME_INLINE static __m512i round_to_pairs(Vec<float> low, Vec<float> high) {
    const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32(0xffff0000);
    const __m512i l = _mm512_add_epi32((__m512i)low.part[0], half);
    const __m512i h = _mm512_add_epi32((__m512i)high.part[0], half);
    return _mm512_ternarylogic_epi32(upper, h, _mm512_srli_epi32(l, 16), 0xca);  // bitwise select
  }

  // Interleaves words (even, odd) of the first or the last 16 columns.
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
