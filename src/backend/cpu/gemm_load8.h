// Loads of eight numbers as floats, for files compiled for AVX2.
#pragma once

#include <immintrin.h>

#include "base/dtype.h"

namespace trireme::cpu {
namespace {  // files compiled for other instruction sets must not share it

[[maybe_unused]] inline __m256 load8(const float* p) {
  return _mm256_loadu_ps(p);
}

[[maybe_unused]] inline __m256 load8(const f16* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

[[maybe_unused]] inline __m256 load8(const bf16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

}  // namespace
}  // namespace trireme::cpu
