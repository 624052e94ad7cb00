// Compiled for AVX2 with F16C, Trireme's minimum.
#include "backend/cpu/gemm_convert.h"

#include <immintrin.h>

#include "backend/cpu/gemm_load8.h"

namespace trireme::cpu {
namespace {

void store8(f16* p, __m256 x) {
  const __m128i bits = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bits);
}

// Rounds to nearest even, like bf16's constructor.
void store8(bf16* p, __m256 x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, bias), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m256i words = _mm256_blendv_epi8(rounded, quiet, is_nan);
  const __m256i packed = _mm256_packus_epi32(words, words);
  const __m256i ordered = _mm256_permute4x64_epi64(packed, 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(ordered));
}

}  // namespace

template <class T>
void widen(float* dst, std::int64_t ld_dst, const T* src, std::int64_t rows, std::int64_t cols,
           std::int64_t ld_src) {
  for (std::int64_t r = 0; r < rows; ++r, dst += ld_dst, src += ld_src) {
    std::int64_t c = 0;
    for (; c + 8 <= cols; c += 8) _mm256_storeu_ps(dst + c, load8(src + c));
    for (; c < cols; ++c) dst[c] = static_cast<float>(src[c]);
  }
}

template <class T>
void narrow(T* dst, const float* src, std::int64_t rows, std::int64_t cols, std::int64_t ld_dst,
            const T* bias, bool accumulate) {
  for (std::int64_t r = 0; r < rows; ++r, dst += ld_dst, src += cols) {
    std::int64_t c = 0;
    for (; c + 8 <= cols; c += 8) {
      __m256 sum = _mm256_loadu_ps(src + c);
      if (bias) sum = _mm256_add_ps(sum, load8(bias + c));
      if (accumulate) sum = _mm256_add_ps(sum, load8(dst + c));
      store8(dst + c, sum);
    }
    for (; c < cols; ++c) {
      float sum = src[c];
      if (bias) sum += static_cast<float>(bias[c]);
      if (accumulate) sum += static_cast<float>(dst[c]);
      dst[c] = T(sum);
    }
  }
}

template void widen(float*, std::int64_t, const float*, std::int64_t, std::int64_t, std::int64_t);
template void widen(float*, std::int64_t, const f16*, std::int64_t, std::int64_t, std::int64_t);
template void widen(float*, std::int64_t, const bf16*, std::int64_t, std::int64_t, std::int64_t);
template void narrow(f16*, const float*, std::int64_t, std::int64_t, std::int64_t, const f16*,
                     bool);
template void narrow(bf16*, const float*, std::int64_t, std::int64_t, std::int64_t, const bf16*,
                     bool);

}  // namespace trireme::cpu
