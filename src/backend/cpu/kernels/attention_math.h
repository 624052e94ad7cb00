// Vector arithmetic of attention: a fast 2^x, and transposition of 16 x 16 blocks of words.
#pragma once

#include <math.h>

#include "backend/cpu/kernels/simd.h"

namespace trireme::cpu::TRIREME_ISA {

inline constexpr double log2_of_e = 1.4426950408889634;
inline constexpr double ln_of_2 = 0.6931471805599453;

// Flushes denormals to zero on this thread for the lifetime of the object. Softmax weights that
// small are insignificant, but each costs the processor 200 cycles.
class FlushDenormals {
 public:
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned before_;
};

// 2^x for x <= 127 with an error below 2 ulp; 0 below -126; NaN propagates. x = n + r with integer
// n, and 2^r by the minimax polynomial of degree 5, with relative error 7.5e-8.
#ifdef __AVX512F__

TRIREME_INLINE Vec<float> exp2(Vec<float> x) {
  const Vec<float> r{_mm512_reduce_ps(x.part[0], 0x9)};  // x - floor(x)
  auto y = splat(0.00187757670002f);
  y = y * r + splat(0.00898934002358f);
  y = y * r + splat(0.0558263181162f);
  y = y * r + splat(0.240153617021f);
  y = y * r + splat(0.693153073203f);
  y = y * r + splat(0.999999925064f);
  return {_mm512_scalef_ps(y.part[0], x.part[0])};  // y * 2^floor(x)
}

#else

TRIREME_INLINE Vec<float> exp2(Vec<float> x) {
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits; the additional 127 is the
  // exponent's bias, so that shifting the bits up gives 2^n, and 0 for n = -127.
  const auto magic = splat(0x1.8p23f + 127.0f);
  x = max(splat(-127.0f), x);  // this operand order propagates NaN
  const auto shifted = x + magic;
  const auto r = x - (shifted - magic);
  const auto power = bits_as<float>(shift_left(bits_as<std::int32_t>(shifted), 23));
  auto y = splat(0.00132764721678f);
  y = y * r + splat(0.00967554133102f);
  y = y * r + splat(0.0555071327288f);
  y = y * r + splat(0.24022119724f);
  y = y * r + splat(0.693146967065f);
  y = y * r + splat(1.00000007165f);
  return y * power;
}

#endif

TRIREME_INLINE Vec<double> exp2(Vec<double> x) {
  for (auto& part : x.part) {
    for (int i = 0; i < register_bytes / 8; ++i) part[i] = ::exp2(part[i]);
  }
  return x;
}

TRIREME_INLINE float log2(float x) {
  return ::log2f(x);
}
TRIREME_INLINE double log2(double x) {
  return ::log2(x);
}

// Returns whether a < b in any lane.
TRIREME_INLINE bool any_less(Vec<float> a, Vec<float> b) {
#ifdef __AVX512F__
  return _mm512_cmp_ps_mask(a.part[0], b.part[0], _CMP_LT_OQ) != 0;
#else
  const __m256 low = _mm256_cmp_ps(a.part[0], b.part[0], _CMP_LT_OQ);
  const __m256 high = _mm256_cmp_ps(a.part[1], b.part[1], _CMP_LT_OQ);
  return _mm256_movemask_ps(_mm256_or_ps(low, high)) != 0;
#endif
}

TRIREME_INLINE bool any_less(Vec<double> a, Vec<double> b) {
  const Vec<double> less = where_less(a, b, splat(1.0), splat(0.0));
  return sum_lanes(less) > 0;
}

#ifdef __AVX512F__

// dst[j * dst_ld + i] = src[i * src_ld + j] for i, j in [0, 16); strides in words.
TRIREME_INLINE void transpose_words(std::uint32_t* dst, std::int64_t dst_ld,
                                    const std::uint32_t* src, std::int64_t src_ld) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_si512(src + i * src_ld);
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
  // a[4 r + c]: column c of each 4 x 4 block of block row r; now permute 128-bit lanes.
  for (int c = 0; c < 4; ++c) {
    const __m512i low01 = _mm512_shuffle_i32x4(a[c], a[4 + c], 0x44);
    const __m512i high01 = _mm512_shuffle_i32x4(a[c], a[4 + c], 0xee);
    const __m512i low23 = _mm512_shuffle_i32x4(a[8 + c], a[12 + c], 0x44);
    const __m512i high23 = _mm512_shuffle_i32x4(a[8 + c], a[12 + c], 0xee);
    b[c] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    b[4 + c] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
    b[8 + c] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    b[12 + c] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
  }
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(dst + i * dst_ld, b[i]);
}

#else

namespace detail {

TRIREME_INLINE void transpose_8x8(std::uint32_t* dst, std::int64_t dst_ld, const std::uint32_t* src,
                                  std::int64_t src_ld) {
  __m256i a[8], b[8];
  for (int i = 0; i < 8; ++i) {
    a[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i * src_ld));
  }
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_epi32(a[i], a[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    a[i] = _mm256_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm256_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm256_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm256_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    b[i] = _mm256_permute2x128_si256(a[i], a[i + 4], 0x20);
    b[i + 4] = _mm256_permute2x128_si256(a[i], a[i + 4], 0x31);
  }
  for (int i = 0; i < 8; ++i) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(dst + i * dst_ld), b[i]);
  }
}

}  // namespace detail

TRIREME_INLINE void transpose_words(std::uint32_t* dst, std::int64_t dst_ld,
                                    const std::uint32_t* src, std::int64_t src_ld) {
  for (int i = 0; i < 16; i += 8) {
    for (int j = 0; j < 16; j += 8) {
      detail::transpose_8x8(dst + j * dst_ld + i, dst_ld, src + i * src_ld + j, src_ld);
    }
  }
}

#endif

// dst[j * dst_ld + i] = src[i * src_ld + j] for i < rows, j < cols, multiples of 16.
TRIREME_INLINE void transpose(float* dst, std::int64_t dst_ld, const float* src,
                              std::int64_t src_ld, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t i = 0; i < rows; i += 16) {
    for (std::int64_t j = 0; j < cols; j += 16) {
      transpose_words(reinterpret_cast<std::uint32_t*>(dst + j * dst_ld + i), dst_ld,
                      reinterpret_cast<const std::uint32_t*>(src + i * src_ld + j), src_ld);
    }
  }
}

TRIREME_INLINE void transpose(double* dst, std::int64_t dst_ld, const double* src,
                              std::int64_t src_ld, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) dst[j * dst_ld + i] = src[i * src_ld + j];
  }
}

}  // namespace trireme::cpu::TRIREME_ISA
