// Emulation of the 512-bit intrinsics that our kernels use on two 256-bit registers, bitwise equal
// and under the names of the compiler's, which they hide within their namespace.
//
// Implements only what is used, and only for the operands it is used with: anything else
// does not compile, or traps.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/cpu/emulated/register.h"
#include "backend/cpu/emulated/tiles.h"

namespace trireme::cpu::amx_emulated {

// NOLINTBEGIN(bugprone-reserved-identifier): the compiler's own names.
using __m512 = Register<float>;
using __m512d = Register<double>;
using __m512i = Register<long long>;
// NOLINTEND(bugprone-reserved-identifier)

#define TRIREME_UNARY(name, Vector)                       \
  TRIREME_INLINE Vector _mm512_##name(Vector x) {         \
    return {_mm256_##name(x.low), _mm256_##name(x.high)}; \
  }
#define TRIREME_BINARY(name, Vector)                                     \
  TRIREME_INLINE Vector _mm512_##name(Vector x, Vector y) {              \
    return {_mm256_##name(x.low, y.low), _mm256_##name(x.high, y.high)}; \
  }
TRIREME_UNARY(sqrt_ps, __m512)
TRIREME_UNARY(sqrt_pd, __m512d)
TRIREME_BINARY(add_ps, __m512)
TRIREME_BINARY(max_ps, __m512)
TRIREME_BINARY(min_ps, __m512)
TRIREME_BINARY(max_pd, __m512d)
TRIREME_BINARY(min_pd, __m512d)
TRIREME_BINARY(add_epi16, __m512i)
TRIREME_BINARY(add_epi32, __m512i)
TRIREME_BINARY(mullo_epi32, __m512i)
TRIREME_BINARY(mul_epu32, __m512i)
// Operates within 128-bit lanes, of which a half has two.
TRIREME_BINARY(unpacklo_epi32, __m512i)
TRIREME_BINARY(unpackhi_epi32, __m512i)
TRIREME_BINARY(unpacklo_epi64, __m512i)
TRIREME_BINARY(unpackhi_epi64, __m512i)
#undef TRIREME_UNARY
#undef TRIREME_BINARY

TRIREME_INLINE __m512 _mm512_fmsub_ps(__m512 x, __m512 y, __m512 z) {
  return {_mm256_fmsub_ps(x.low, y.low, z.low), _mm256_fmsub_ps(x.high, y.high, z.high)};
}

TRIREME_INLINE __m512i _mm512_slli_epi32(__m512i x, unsigned bits) {
  return {_mm256_slli_epi32(x.low, static_cast<int>(bits)),
          _mm256_slli_epi32(x.high, static_cast<int>(bits))};
}
TRIREME_INLINE __m512i _mm512_srli_epi32(__m512i x, unsigned bits) {
  return {_mm256_srli_epi32(x.low, static_cast<int>(bits)),
          _mm256_srli_epi32(x.high, static_cast<int>(bits))};
}

// Bit i of the result is bit 4 a_i + 2 b_i + c_i of the table.
TRIREME_INLINE __m512i _mm512_ternarylogic_epi32(__m512i a, __m512i b, __m512i c, int table) {
  __m512i out{};
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    if ((table >> i & 1) == 0) continue;
    out = out | (((i & 4) != 0 ? a : ~a) & ((i & 2) != 0 ? b : ~b) & ((i & 1) != 0 ? c : ~c));
  }
  return out;
}

// Constants and casts.
TRIREME_INLINE __m512i _mm512_setzero_si512() {
  return __m512i{};
}
TRIREME_INLINE __m512i _mm512_set1_epi16(std::int16_t x) {
  return {_mm256_set1_epi16(x), _mm256_set1_epi16(x)};
}
TRIREME_INLINE __m512i _mm512_set1_epi32(std::int32_t x) {
  return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
TRIREME_INLINE __m512i _mm512_set1_epi64(std::int64_t x) {
  return {_mm256_set1_epi64x(x), _mm256_set1_epi64x(x)};
}
// The last argument is the first element.
template <class... Words>
TRIREME_INLINE __m512i _mm512_set_epi32(Words... words) {
  static_assert(sizeof...(words) == 16);
  const std::int32_t w[16] = {words...};
  return {_mm256_set_epi32(w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15]),
          _mm256_set_epi32(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7])};
}
TRIREME_INLINE __m512 _mm512_castsi512_ps(__m512i x) {
  return __m512(x);
}
TRIREME_INLINE __m256i _mm512_castsi512_si256(__m512i x) {
  return x.low;
}
TRIREME_INLINE __m256d _mm512_castpd512_pd256(__m512d x) {
  return x.low;
}
TRIREME_INLINE __m256i _mm512_extracti64x4_epi64(__m512i x, int half) {
  return half == 0 ? x.low : x.high;
}
TRIREME_INLINE __m256d _mm512_extractf64x4_pd(__m512d x, int half) {
  return half == 0 ? x.low : x.high;
}

// Memory. The aligned forms fault on unaligned addresses, as on the processor.
TRIREME_INLINE void check_aligned(const void* at) {
  if (reinterpret_cast<std::uintptr_t>(at) % 64 != 0) misused("an address that is not aligned");
}
template <class V>
TRIREME_INLINE V read(const void* from) {
  V x;
  read_part(x, from);
  return x;
}
TRIREME_INLINE __m512i _mm512_loadu_si512(const void* from) {
  return read<__m512i>(from);
}
TRIREME_INLINE __m512i _mm512_load_si512(const void* from) {
  check_aligned(from);
  return read<__m512i>(from);
}
TRIREME_INLINE __m512 _mm512_load_ps(const void* from) {
  check_aligned(from);
  return read<__m512>(from);
}
TRIREME_INLINE void _mm512_storeu_si512(void* to, __m512i x) {
  write_part(to, x);
}
TRIREME_INLINE void _mm512_store_si512(void* to, __m512i x) {
  check_aligned(to);
  write_part(to, x);
}
TRIREME_INLINE void _mm512_stream_ps(float* to, __m512 x) {
  check_aligned(to);
  write_part(to, x);
}
TRIREME_INLINE void _mm512_stream_si512(__m512i* to, __m512i x) {
  _mm512_store_si512(to, x);
}

// Masked-out elements are neither read nor written. Our masks select the first few elements.
template <class Mask>
TRIREME_INLINE std::size_t first_bytes(Mask mask, std::size_t element) {
  const std::uint64_t bits = mask;
  if ((bits & (bits + 1)) != 0) misused("a mask of other than the first elements");
  return static_cast<std::size_t>(__builtin_popcountll(bits)) * element;
}
template <class V>
TRIREME_INLINE V read_first(const void* from, std::size_t bytes) {
  if (bytes == 64) return read<V>(from);
  char padded[64] = {};
  __builtin_memcpy(padded, from, bytes);
  return read<V>(padded);
}
template <class V>
TRIREME_INLINE void write_first(void* to, V x, std::size_t bytes) {
  if (bytes == 64) return write_part(to, x);
  char padded[64];
  write_part(padded, x);
  __builtin_memcpy(to, padded, bytes);
}
TRIREME_INLINE __m512i _mm512_maskz_loadu_epi16(__mmask32 mask, const void* from) {
  return read_first<__m512i>(from, first_bytes(mask, 2));
}
TRIREME_INLINE __m512 _mm512_maskz_loadu_ps(__mmask16 mask, const void* from) {
  return read_first<__m512>(from, first_bytes(mask, 4));
}
TRIREME_INLINE void _mm512_mask_storeu_ps(void* to, __mmask16 mask, __m512 x) {
  write_first(to, x, first_bytes(mask, 4));
}
TRIREME_INLINE void _mm512_mask_storeu_epi16(void* to, __mmask32 mask, __m512i x) {
  write_first(to, x, first_bytes(mask, 2));
}

// Permutations of elements.
TRIREME_INLINE __m128i quarter(__m512i x, int place) {
  const __m256i half = place < 2 ? x.low : x.high;
  return place % 2 == 0 ? _mm256_castsi256_si128(half) : _mm256_extracti128_si256(half, 1);
}
TRIREME_INLINE __m512i _mm512_shuffle_i32x4(__m512i a, __m512i b, int places) {
  return {_mm256_set_m128i(quarter(a, places >> 2 & 3), quarter(a, places & 3)),
          _mm256_set_m128i(quarter(b, places >> 6 & 3), quarter(b, places >> 4 & 3))};
}
// Only indices that interleave the words of a and b, from the first or the middle one on.
TRIREME_INLINE __m512i _mm512_permutex2var_epi16(__m512i a, __m512i index, __m512i b) {
  const int first = _mm256_extract_epi16(index.low, 0);
  const __m256i pair = _mm256_set1_epi32((first + 32) << 16 | first);
  const __m256i count =
      _mm256_setr_epi32(0, 0x10001, 0x20002, 0x30003, 0x40004, 0x50005, 0x60006, 0x70007);
  const __m256i low = _mm256_add_epi16(pair, count);
  const __m256i high = _mm256_add_epi16(low, _mm256_set1_epi16(8));
  const __m256i equal =
      _mm256_and_si256(_mm256_cmpeq_epi16(index.low, low), _mm256_cmpeq_epi16(index.high, high));
  if (first % 16 != 0 || first > 16 || _mm256_movemask_epi8(equal) != -1)
    misused("a permutation of words other than one that interleaves two halves");
  const __m256i x = first == 0 ? a.low : a.high, y = first == 0 ? b.low : b.high;
  const __m256i even = _mm256_unpacklo_epi16(x, y), odd = _mm256_unpackhi_epi16(x, y);
  return {_mm256_permute2x128_si256(even, odd, 0x20), _mm256_permute2x128_si256(even, odd, 0x31)};
}

// Conversions.
TRIREME_INLINE __m512i _mm512_cvtepu16_epi32(__m256i x) {
  return {_mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)),
          _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1))};
}
TRIREME_INLINE __m512d _mm512_cvtps_pd(__m256 x) {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}
TRIREME_INLINE __m256 to_floats(__m512d x) {
  return _mm256_set_m128(_mm256_cvtpd_ps(x.high), _mm256_cvtpd_ps(x.low));
}
TRIREME_INLINE __m512 _mm512_cvtph_ps(__m256i x) {
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(x)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1))};
}
TRIREME_INLINE __m256i _mm512_cvtps_ph(__m512 x, int rounding) {
  if (rounding != _MM_FROUND_TO_NEAREST_INT) misused("a rounding other than to nearest");
  return _mm256_set_m128i(_mm256_cvtps_ph(x.high, _MM_FROUND_TO_NEAREST_INT),
                          _mm256_cvtps_ph(x.low, _MM_FROUND_TO_NEAREST_INT));
}

// Rounds eight floats to bf16, in words: ties to even, denormals to zero, NaN to quiet NaN.
TRIREME_INLINE __m256i round_eight(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), one = _mm256_set1_epi32(1);
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, one);
  const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i number = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
  const __m256i sign = _mm256_and_si256(upper, _mm256_set1_epi32(0x8000));
  const __m256i nan = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256i exponent = _mm256_and_si256(bits, _mm256_set1_epi32(0x7f800000));
  const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
  const __m256i tiny = _mm256_cmpeq_epi32(exponent, _mm256_setzero_si256());
  const __m256i is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
  return _mm256_blendv_epi8(_mm256_blendv_epi8(number, sign, tiny), nan, is_nan);
}
TRIREME_INLINE __m256i _mm512_cvtneps_pbh(__m512 x) {
  const __m256i mixed = _mm256_packus_epi32(round_eight(x.low), round_eight(x.high));
  return _mm256_permute4x64_epi64(mixed, 0xd8);
}
// The second operand becomes the lower half.
TRIREME_INLINE __m512i _mm512_cvtne2ps_pbh(__m512 high, __m512 low) {
  return {_mm512_cvtneps_pbh(low), _mm512_cvtneps_pbh(high)};
}

TRIREME_INLINE __mmask16 _mm512_cmp_ps_mask(__m512 x, __m512 y, int comparison) {
  if (comparison != _CMP_LT_OQ) misused("a comparison other than less than");
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(x.low, y.low, _CMP_LT_OQ));
  const int high = _mm256_movemask_ps(_mm256_cmp_ps(x.high, y.high, _CMP_LT_OQ));
  return static_cast<__mmask16>(low | high << 8);
}

// x - floor(x), rounded down where it has to be rounded; 0 for infinities.
TRIREME_INLINE __m256 fraction_of_eight(__m256 x) {
  const __m256 whole = _mm256_floor_ps(x), nearest = _mm256_sub_ps(x, whole);
  const __m256 rounded_up = _mm256_cmp_ps(_mm256_add_ps(nearest, whole), x, _CMP_GT_OQ);
  const __m256i below = _mm256_add_epi32(_mm256_castps_si256(nearest),
                                         _mm256_castps_si256(rounded_up));  // minus one where set
  const __m256 infinity = _mm256_set1_ps(__builtin_inff());
  const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
  return _mm256_andnot_ps(_mm256_cmp_ps(size, infinity, _CMP_EQ_OQ), _mm256_castsi256_ps(below));
}
TRIREME_INLINE __m512 _mm512_reduce_ps(__m512 x, int form) {
  if (form != 0x9) misused("a reduction other than by the whole number below");
  return {fraction_of_eight(x.low), fraction_of_eight(x.high)};
}

// x * 2^floor(y) with one rounding: the product in double is exact. NaN where y is.
TRIREME_INLINE __m256 scale_eight(__m256 x, __m256 y) {
  const __m256 whole = _mm256_floor_ps(y);
  const __m256 within =
      _mm256_min_ps(_mm256_set1_ps(1000), _mm256_max_ps(_mm256_set1_ps(-1000), whole));
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(within), _mm256_set1_epi32(1023));
  const __m256i low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(biased));
  const __m256i high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256(biased, 1));
  const __m512d power{_mm256_castsi256_pd(_mm256_slli_epi64(low, 52)),
                      _mm256_castsi256_pd(_mm256_slli_epi64(high, 52))};
  const __m256 scaled = to_floats(_mm512_cvtps_pd(x) * power);
  return _mm256_blendv_ps(scaled, y, _mm256_cmp_ps(y, y, _CMP_UNORD_Q));
}
TRIREME_INLINE __m512 _mm512_scalef_ps(__m512 x, __m512 y) {
  return {scale_eight(x.low, y.low), scale_eight(x.high, y.high)};
}

}  // namespace trireme::cpu::amx_emulated
