// Vector math: exp and the normal distribution, accurate to a few ulp in float, by
// the C library in double.
#pragma once

#include "backend/cpu/kernels/simd.h"

namespace trireme::cpu::TRIREME_ISA {

// c[0] + c[1] x + c[2] x^2 + ...
template <int count>
TRIREME_INLINE Vec<float> polynomial(const float (&c)[count], Vec<float> x) {
  Vec<float> sum = splat(c[count - 1]);
  for (int i = count - 2; i >= 0; --i) sum = sum * x + splat(c[i]);
  return sum;
}

// x * 2^n for integer n in [-151, 129], with a single rounding if the result is subnormal.
TRIREME_INLINE Vec<float> scale_by_power(Vec<float> x, Vec<float> n) {
#ifdef __AVX512F__
  return {_mm512_scalef_ps(x.part[0], n.part[0])};
#else
  // Two factors, since 2^n itself may be out of range.
  return map<float>(
      [](__m256 value, __m256 exponent) TRIREME_INLINE_LAMBDA {
        const __m256i whole = _mm256_cvtps_epi32(exponent);
        const __m256i half = _mm256_srai_epi32(whole, 1);
        const __m256i bias = _mm256_set1_epi32(127);
        const __m256i first = _mm256_add_epi32(half, bias);
        const __m256i second = _mm256_add_epi32(_mm256_sub_epi32(whole, half), bias);
        return value * _mm256_castsi256_ps(_mm256_slli_epi32(first, 23)) *
               _mm256_castsi256_ps(_mm256_slli_epi32(second, 23));
      },
      x, n);
#endif
}

// e^x: x = n ln 2 + r with |r| <= ln 2 / 2, and a minimax polynomial for e^r (error 3e-9).
TRIREME_INLINE Vec<float> exp(Vec<float> x) {
  x = min(splat(89.0f), max(splat(-104.0f), x));  // beyond these: infinity and 0; NaN propagates
  const auto to_whole = splat(12582912.0f);       // 1.5 * 2^23: adding it rounds to a whole number
  const auto n = x * splat(1.44269504f) + to_whole - to_whole;
  const auto r = x - n * splat(0.693145752f) - n * splat(1.42860677e-6f);  // ln 2 in two parts
  constexpr float c[] = {0.499999934f, 0.166665195f, 0.0416684011f, 0.00836885111f, 0.00138143194f};
  const auto power = (polynomial(c, r) * r) * r + r + splat(1.0f);
  return scale_by_power(power, n);
}

TRIREME_INLINE Vec<double> exp(Vec<double> x) {
  for (auto& part : x.part) {
    for (unsigned i = 0; i < sizeof part / sizeof(double); ++i) part[i] = __builtin_exp(part[i]);
  }
  return x;
}

// 1 / (1 + e^-x).
template <class A>
TRIREME_INLINE Vec<A> sigmoid(Vec<A> x) {
  const auto one = splat(A{1});
  return one / (one + exp(splat(A{0}) - x));
}

// Uses a polynomial where 1 - 2 / (e^2x + 1) would lose digits (Cephes, tanhf).
TRIREME_INLINE Vec<float> tanh(Vec<float> x) {
  const auto zero = splat(0.0f), one = splat(1.0f);
  const auto square = x * x;
  constexpr float c[] = {-3.33332819422e-1f, 1.33314422036e-1f, -5.37397155531e-2f,
                         2.06390887954e-2f, -5.70498872745e-3f};
  const auto near = polynomial(c, square) * square * x + x;
  const auto s = sigmoid(x + x);
  return where_less(max(zero - x, x), splat(0.625f), near, s + s - one);
}

TRIREME_INLINE Vec<double> tanh(Vec<double> x) {
  for (auto& part : x.part) {
    for (unsigned i = 0; i < sizeof part / sizeof(double); ++i) part[i] = __builtin_tanh(part[i]);
  }
  return x;
}

// CDF and density of the standard normal distribution.
template <class A>
struct Normal {
  Vec<A> cdf, pdf;
};

// The tail beyond |x| is e^(-x^2 / 2) h(|x|), with h a minimax polynomial in 1 / (1 + 0.3 |x|)
// (relative error 6e-8), so the left tail is accurate down to where it underflows.
TRIREME_INLINE Normal<float> normal(Vec<float> x) {
  const auto zero = splat(0.0f);
  const auto one = splat(1.0f);
  const auto size = min(splat(16.0f), max(zero - x, x));
  const auto t = one / (one + splat(0.3f) * size);
  constexpr float c[] = {7.37236376e-6f, 0.119484208f, 0.121945259f,  0.0945858802f, 0.142765231f,
                         -0.076839591f,  0.228951710f, -0.169307424f, 0.038407384f};
  const auto square = size * size;
  // Rounding error of the square, which matters for such a large exponent.
  const auto lost = multiply_subtract(size, size, square);
  const auto bell = exp(splat(-0.5f) * square) * (one - splat(0.5f) * lost);
  const auto tail = bell * polynomial(c, t);
  return {where_less(x, zero, tail, one - tail), splat(0.398942280f) * bell};
}

TRIREME_INLINE Normal<double> normal(Vec<double> x) {
  Normal<double> out;
  for (int p = 0; p < Vec<double>::parts; ++p) {
    for (unsigned i = 0; i < sizeof x.part[p] / sizeof(double); ++i) {
      const double value = x.part[p][i];
      out.cdf.part[p][i] = 0.5 * __builtin_erfc(-value * 0.70710678118654752440);
      out.pdf.part[p][i] = 0.39894228040143267794 * __builtin_exp(-0.5 * value * value);
    }
  }
  return out;
}

}  // namespace trireme::cpu::TRIREME_ISA
