// Loads and stores of vectors, whole or in part, with conversion from and to the storage types.
#pragma once

#include "backend/cpu/kernels/vec.h"

namespace trireme::cpu::TRIREME_ISA {

// Part of a vector to access: all of it, or its first lanes.
struct All {};
struct First {
  int count;
};

// The part of a vector starting at `from`, which may be unaligned.
template <class E>
TRIREME_INLINE typename Vec<E>::Part load_part(const E* from) {
  typename Vec<E>::Part part;
  read_part(part, from);
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
  write_part(to, x.part[0]);
  if constexpr (Vec<E>::parts == 2) write_part(to + Vec<E>::lanes / 2, x.part[1]);
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

// Rounds floats to bf16, to nearest even, in the lower halves of words; NaN stays NaN.
TRIREME_INLINE Vec<std::uint32_t> round_to_bf16(Vec<float> x) {
  const auto bits = bits_as<std::uint32_t>(x);
  const auto odd = shift_right(bits, 16) & splat(std::uint32_t{1});
  const auto rounded = shift_right(bits + splat(std::uint32_t{0x7fff}) + odd, 16);
  const auto quiet = shift_right(bits, 16) | splat(std::uint32_t{0x40});
  return map<std::uint32_t>(
      [](auto value, auto number, auto nan)
          TRIREME_INLINE_LAMBDA { return choose(value == value, number, nan); },
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
  // One instruction instead of nine. Rounds like round_to_bf16 but flushes subnormals to zero.
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

// Sets the other lanes to `filler`.
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

// Loads and stores of single elements.
template <class T>
TRIREME_INLINE Acc<T> load_one(const T* from) {
  return load(from, First{1}).part[0][0];
}

template <class T>
TRIREME_INLINE void store_one(T* to, Acc<T> value) {
  store(to, splat(value), First{1});
}

}  // namespace trireme::cpu::TRIREME_ISA
