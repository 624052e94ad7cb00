// Vectors of 64 bytes, and the loads and stores that convert the 16-bit storage types. A vector has
// as many lanes on every instruction set (AVX2 holds it in two registers), so that sums are taken
// in the same order everywhere.
//
// Everything here is inlined by force and lives in the namespace of its instruction set: nothing
// that was compiled for one set can be linked into another.
#pragma once

// GCC 12 takes the intrinsics' deliberately undefined operands for mistakes.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>

#include "backend/cpu/kernels.h"

#define TRIREME_INLINE inline __attribute__((always_inline))
// The same for a lambda; stands between its parameters and its body.
#define TRIREME_INLINE_LAMBDA __attribute__((always_inline))

namespace trireme::cpu::TRIREME_ISA {

#ifdef __AVX512F__
inline constexpr int register_bytes = 64;
#else
inline constexpr int register_bytes = 32;
#endif

template <class E>
struct Vec {
  typedef E Part __attribute__((vector_size(register_bytes)));
  static constexpr int lanes = 64 / sizeof(E);
  static constexpr int parts = 64 / register_bytes;
  Part part[parts];
};

// Lanes of the vectors that kernels of storage type T compute in.
template <class T>
inline constexpr int lanes_of = Vec<Acc<T>>::lanes;

// f of each part. Written out, since the compiler keeps an array in registers only where no index
// varies.
template <class To, class F, class... Vecs>
TRIREME_INLINE Vec<To> map(F f, const Vecs&... x) {
  Vec<To> out;
  out.part[0] = f(x.part[0]...);
  if constexpr (Vec<To>::parts == 2) out.part[1] = f(x.part[1]...);
  return out;
}

template <class E>
TRIREME_INLINE Vec<E> splat(E value) {
  Vec<E> out;
  out.part[0] = value - typename Vec<E>::Part{};
  if constexpr (Vec<E>::parts == 2) out.part[1] = out.part[0];
  return out;
}

#define TRIREME_VEC_OPERATOR(op)                                                      \
  template <class E>                                                                  \
  TRIREME_INLINE Vec<E> operator op(Vec<E> a, Vec<E> b) {                             \
    return map<E>([](auto x, auto y) TRIREME_INLINE_LAMBDA { return x op y; }, a, b); \
  }
TRIREME_VEC_OPERATOR(+)
TRIREME_VEC_OPERATOR(-)
TRIREME_VEC_OPERATOR(*)
TRIREME_VEC_OPERATOR(/)
TRIREME_VEC_OPERATOR(&)
TRIREME_VEC_OPERATOR(|)
TRIREME_VEC_OPERATOR(^)
#undef TRIREME_VEC_OPERATOR

template <class E>
TRIREME_INLINE Vec<E>& operator+=(Vec<E>& a, Vec<E> b) {
  return a = a + b;
}

// Reads the bits of one element type as another of the same size.
template <class To, class From>
TRIREME_INLINE Vec<To> bits_as(Vec<From> x) {
  return map<To>([](auto part) TRIREME_INLINE_LAMBDA { return (typename Vec<To>::Part)part; }, x);
}

template <class E>
TRIREME_INLINE Vec<E> shift_left(Vec<E> x, int bits) {
  return map<E>([=](auto part) TRIREME_INLINE_LAMBDA { return part << bits; }, x);
}

template <class E>
TRIREME_INLINE Vec<E> shift_right(Vec<E> x, int bits) {
  return map<E>([=](auto part) TRIREME_INLINE_LAMBDA { return part >> bits; }, x);
}

// Per lane: a < b ? yes : no.
template <class E, class V>
TRIREME_INLINE Vec<V> where_less(Vec<E> a, Vec<E> b, Vec<V> yes, Vec<V> no) {
  return map<V>([](auto x, auto y, auto p, auto q) TRIREME_INLINE_LAMBDA { return x < y ? p : q; },
                a, b, yes, no);
}

// Intrinsics for what has no operator.
#ifdef __AVX512F__
#define TRIREME_INTRINSIC(name) _mm512_##name
#else
#define TRIREME_INTRINSIC(name) _mm256_##name
#endif

// The larger and the smaller lane; b where either is NaN. (Each is one instruction, which the
// compiler does not always find.)
TRIREME_INLINE Vec<float> max(Vec<float> a, Vec<float> b) {
  return map<float>(
      [](auto x, auto y) TRIREME_INLINE_LAMBDA { return TRIREME_INTRINSIC(max_ps)(x, y); }, a, b);
}
TRIREME_INLINE Vec<double> max(Vec<double> a, Vec<double> b) {
  return map<double>(
      [](auto x, auto y) TRIREME_INLINE_LAMBDA { return TRIREME_INTRINSIC(max_pd)(x, y); }, a, b);
}
TRIREME_INLINE Vec<float> min(Vec<float> a, Vec<float> b) {
  return map<float>(
      [](auto x, auto y) TRIREME_INLINE_LAMBDA { return TRIREME_INTRINSIC(min_ps)(x, y); }, a, b);
}
TRIREME_INLINE Vec<double> min(Vec<double> a, Vec<double> b) {
  return map<double>(
      [](auto x, auto y) TRIREME_INLINE_LAMBDA { return TRIREME_INTRINSIC(min_pd)(x, y); }, a, b);
}

TRIREME_INLINE Vec<float> sqrt(Vec<float> x) {
  return map<float>(
      [](auto part) TRIREME_INLINE_LAMBDA { return TRIREME_INTRINSIC(sqrt_ps)(part); }, x);
}
TRIREME_INLINE Vec<double> sqrt(Vec<double> x) {
  return map<double>(
      [](auto part) TRIREME_INLINE_LAMBDA { return TRIREME_INTRINSIC(sqrt_pd)(part); }, x);
}

// a * b - c with one rounding.
TRIREME_INLINE Vec<float> multiply_subtract(Vec<float> a, Vec<float> b, Vec<float> c) {
  return map<float>([](auto x, auto y, auto z)
                        TRIREME_INLINE_LAMBDA { return TRIREME_INTRINSIC(fmsub_ps)(x, y, z); },
                    a, b, c);
}

// How much of a vector is meant: all of it, or its first lanes.
struct All {};
struct First {
  int count;
};

// Combines all lanes by halves: lane i with lane i + 8, then i + 4, and so on.
template <class E, class Combine>
TRIREME_INLINE E fold_lanes(Vec<E> x, Combine combine) {
  typename Vec<E>::Part all = x.part[0];
  if constexpr (Vec<E>::parts == 2) all = combine(all, x.part[1]);
  constexpr int count = register_bytes / sizeof(E);
  if constexpr (count == 16) {
    all = combine(all, __builtin_shufflevector(all, all, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3,
                                               4, 5, 6, 7));
    all = combine(all, __builtin_shufflevector(all, all, 4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10, 11, 12,
                                               13, 14, 15));
    all = combine(all, __builtin_shufflevector(all, all, 2, 3, 0, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12,
                                               13, 14, 15));
    all = combine(all, __builtin_shufflevector(all, all, 1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
                                               13, 14, 15));
  } else if constexpr (count == 8) {
    all = combine(all, __builtin_shufflevector(all, all, 4, 5, 6, 7, 0, 1, 2, 3));
    all = combine(all, __builtin_shufflevector(all, all, 2, 3, 0, 1, 4, 5, 6, 7));
    all = combine(all, __builtin_shufflevector(all, all, 1, 0, 2, 3, 4, 5, 6, 7));
  } else {
    all = combine(all, __builtin_shufflevector(all, all, 2, 3, 0, 1));
    all = combine(all, __builtin_shufflevector(all, all, 1, 0, 2, 3));
  }
  return all[0];
}

template <class E>
TRIREME_INLINE E sum_lanes(Vec<E> x) {
  return fold_lanes(x, [](auto a, auto b) TRIREME_INLINE_LAMBDA { return a + b; });
}

template <class E>
TRIREME_INLINE E max_lanes(Vec<E> x) {
  return fold_lanes(x, [](auto a, auto b) TRIREME_INLINE_LAMBDA { return a < b ? b : a; });
}

// The part of a vector that begins at `from`, which need not be aligned.
template <class E>
TRIREME_INLINE typename Vec<E>::Part load_part(const E* from) {
  typename Vec<E>::Part part;
  __builtin_memcpy(&part, from, sizeof part);
  return part;
}

template <class E>
TRIREME_INLINE Vec<E> load_whole(const E* from) {
  Vec<E> out;
  out.part[0] = load_part(from);
  if constexpr (Vec<E>::parts == 2) out.part[1] = load_part(from + Vec<E>::lanes / 2);
  return out;
}

template <class E>
TRIREME_INLINE void store_whole(E* to, Vec<E> x) {
  __builtin_memcpy(to, &x.part[0], register_bytes);
  if constexpr (Vec<E>::parts == 2) {
    __builtin_memcpy(to + Vec<E>::lanes / 2, &x.part[1], register_bytes);
  }
}

TRIREME_INLINE Vec<float> load(const float* from) {
  return load_whole(from);
}
TRIREME_INLINE Vec<double> load(const double* from) {
  return load_whole(from);
}
TRIREME_INLINE void store(float* to, Vec<float> x) {
  store_whole(to, x);
}
TRIREME_INLINE void store(double* to, Vec<double> x) {
  store_whole(to, x);
}

// The upper 16 bits of each float, rounded to nearest even; NaN stays NaN.
TRIREME_INLINE Vec<std::uint32_t> round_to_bf16(Vec<float> x) {
  const auto bits = bits_as<std::uint32_t>(x);
  const auto odd = shift_right(bits, 16) & splat(std::uint32_t{1});
  const auto rounded = shift_right(bits + splat(std::uint32_t{0x7fff}) + odd, 16);
  const auto quiet = shift_right(bits, 16) | splat(std::uint32_t{0x40});
  return map<std::uint32_t>([](auto value, auto number, auto nan)
                                TRIREME_INLINE_LAMBDA { return value == value ? number : nan; },
                            x, rounded, quiet);
}

#ifdef __AVX512F__

TRIREME_INLINE Vec<float> load(const bf16* from) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}

TRIREME_INLINE Vec<float> load(const f16* from) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
}

TRIREME_INLINE void store(bf16* to, Vec<float> x) {
#ifdef __AVX512BF16__
  // One instruction for nine. It rounds as round_to_bf16 does but takes subnormals for zero.
  const auto half = (__m256i)_mm512_cvtneps_pbh(x.part[0]);
#else
  const __m256i half = _mm512_cvtepi32_epi16((__m512i)round_to_bf16(x).part[0]);
#endif
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half);
}

TRIREME_INLINE void store(f16* to, Vec<float> x) {
  const __m256i half = _mm512_cvtps_ph(x.part[0], _MM_FROUND_TO_NEAREST_INT);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half);
}

#else

TRIREME_INLINE __m256 load_eight(const bf16* from) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

TRIREME_INLINE Vec<float> load(const bf16* from) {
  return {load_eight(from), load_eight(from + 8)};
}

TRIREME_INLINE Vec<float> load(const f16* from) {
  const auto* half = reinterpret_cast<const __m128i*>(from);
  return {_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtph_ps(_mm_loadu_si128(half + 1))};
}

TRIREME_INLINE void store(bf16* to, Vec<float> x) {
  const auto rounded = round_to_bf16(x);
  const __m256i mixed = _mm256_packus_epi32((__m256i)rounded.part[0], (__m256i)rounded.part[1]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(mixed, 0xd8));
}

TRIREME_INLINE void store(f16* to, Vec<float> x) {
  auto* half = reinterpret_cast<__m128i*>(to);
  _mm_storeu_si128(half, _mm256_cvtps_ph(x.part[0], _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(half + 1, _mm256_cvtps_ph(x.part[1], _MM_FROUND_TO_NEAREST_INT));
}

#endif

// What is not meant becomes `filler`.
template <class E>
TRIREME_INLINE Vec<E> keep(Vec<E> x, All, E) {
  return x;
}

template <class E>
TRIREME_INLINE Vec<E> keep(Vec<E> x, First first, E filler) {
  alignas(64) static constexpr E lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return where_less(load(lanes), splat(static_cast<E>(first.count)), x, splat(filler));
}

template <class T>
TRIREME_INLINE Vec<Acc<T>> load(const T* from, All) {
  return load(from);
}

template <class T>
TRIREME_INLINE Vec<Acc<T>> load(const T* from, First first) {
  alignas(64) unsigned char padded[lanes_of<T> * sizeof(T)] = {};
  __builtin_memcpy(padded, from, first.count * sizeof(T));
  return load(reinterpret_cast<const T*>(padded));
}

template <class T>
TRIREME_INLINE void store(T* to, Vec<Acc<T>> x, All) {
  store(to, x);
}

template <class T>
TRIREME_INLINE void store(T* to, Vec<Acc<T>> x, First first) {
  alignas(64) unsigned char padded[lanes_of<T> * sizeof(T)];
  store(reinterpret_cast<T*>(padded), x);
  __builtin_memcpy(to, padded, first.count * sizeof(T));
}

// Single elements in and out of storage.
template <class T>
TRIREME_INLINE Acc<T> load_one(const T* from) {
  return load(from, First{1}).part[0][0];
}

template <class T>
TRIREME_INLINE void store_one(T* to, Acc<T> value) {
  store(to, splat(value), First{1});
}

// Floats in the type of arithmetic.
template <class A, class Amount>
TRIREME_INLINE Vec<A> load_floats(const float* from, Amount amount) {
  if constexpr (sizeof(A) == sizeof(float)) {
    return load(from, amount);
  } else {
    int count = Vec<A>::lanes;
    if constexpr (requires { amount.count; }) count = amount.count;
    A wide[Vec<A>::lanes] = {};
    for (int i = 0; i < count; ++i) wide[i] = from[i];
    return load(wide);
  }
}

// Adds the squares of x to lanes of double.
TRIREME_INLINE void add_squares(Vec<double> (&sum)[2], Vec<double> x) {
  sum[0] += x * x;
}

#ifdef __AVX512F__
TRIREME_INLINE void add_squares(Vec<double> (&sum)[2], Vec<float> x) {
  const auto bits = (__m512d)x.part[0];
  const Vec<double> low = {_mm512_cvtps_pd((__m256)_mm512_castpd512_pd256(bits))};
  const Vec<double> high = {_mm512_cvtps_pd((__m256)_mm512_extractf64x4_pd(bits, 1))};
  sum[0] += low * low;
  sum[1] += high * high;
}
#else
TRIREME_INLINE Vec<double> widen(__m256 x) {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}

TRIREME_INLINE void add_squares(Vec<double> (&sum)[2], Vec<float> x) {
  const Vec<double> low = widen(x.part[0]), high = widen(x.part[1]);
  sum[0] += low * low;
  sum[1] += high * high;
}
#endif

// Calls body(index, amount) for vectors over [0, count): amount is All, and for the rest First. The
// body should be a TRIREME_INLINE_LAMBDA.
template <int lanes, class Body>
TRIREME_INLINE void for_vectors(std::int64_t count, Body&& body) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, All{});
  if (i < count) body(i, First{static_cast<int>(count - i)});
}

// The sum of term(index, amount), a vector, over [0, count), in four running sums: in one, each
// addition would wait for the one before. What a term gives beyond its amount does not count.
template <class A, class Term>
TRIREME_INLINE A sum_terms(std::int64_t count, Term&& term) {
  constexpr std::int64_t lanes = Vec<A>::lanes;
  Vec<A> sum[4] = {splat(A{0}), splat(A{0}), splat(A{0}), splat(A{0})};
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    for (int k = 0; k < 4; ++k) sum[k] += term(i + k * lanes, All{});
  }
  for (; i + lanes <= count; i += lanes) sum[0] += term(i, All{});
  if (i < count) {
    const First rest = {static_cast<int>(count - i)};
    sum[1] += keep(term(i, rest), rest, A{0});
  }
  return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

}  // namespace trireme::cpu::TRIREME_ISA
