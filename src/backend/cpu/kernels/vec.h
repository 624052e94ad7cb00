// 64-byte vectors and their arithmetic. A vector has the same number of lanes on every instruction
// set (AVX2 uses two registers), so the order of sums is the same everywhere.
//
// All functions are force-inlined and in the namespace of their instruction set, so that code
// compiled for one set cannot be linked into another.
#pragma once

// GCC 12 warns about the intrinsics' deliberately undefined operands.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>

#include "backend/cpu/kernels.h"

#define TRIREME_INLINE inline __attribute__((always_inline))
// Same for a lambda; goes between its parameters and its body.
#define TRIREME_INLINE_LAMBDA __attribute__((always_inline))

namespace trireme::cpu::TRIREME_ISA {

#ifdef __AVX512F__
inline constexpr int register_bytes = 64;
#else
inline constexpr int register_bytes = 32;
#endif

template <class E>
struct Vec {
#ifdef TRIREME_EMULATED_AMX
  using Part = Register<E>;
#else
  typedef E Part __attribute__((vector_size(register_bytes)));
#endif
  static constexpr int lanes = 64 / sizeof(E);
  static constexpr int parts = 64 / register_bytes;
  Part part[parts];
};

// Number of lanes of the vectors used by kernels of storage type T.
template <class T>
inline constexpr int lanes_of = Vec<Acc<T>>::lanes;

// Applies f to each part. Written out, because the compiler keeps an array in registers only if
// all indices are constant.
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

// Reinterprets the bits of one element type as another type of the same size.
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

// Functions for what no operator does, which the emulation of AMX overloads. choose(): per lane,
// mask ? yes : no.
template <class Mask, class Part>
TRIREME_INLINE Part choose(Mask mask, Part yes, Part no) {
  return mask ? yes : no;
}
template <int... lane, class Part>
TRIREME_INLINE Part shuffle(Part x) {
  return __builtin_shufflevector(x, x, lane...);
}
template <class Part>
TRIREME_INLINE void read_part(Part& part, const void* from) {
  __builtin_memcpy(&part, from, sizeof part);
}
template <class Part>
TRIREME_INLINE void write_part(void* to, Part part) {
  __builtin_memcpy(to, &part, sizeof part);
}

// Per lane: a < b ? yes : no.
template <class E, class V>
TRIREME_INLINE Vec<V> where_less(Vec<E> a, Vec<E> b, Vec<V> yes, Vec<V> no) {
  return map<V>([](auto x, auto y, auto p, auto q)
                    TRIREME_INLINE_LAMBDA { return choose(x < y, p, q); },
                a, b, yes, no);
}

// Intrinsics for missing operators.
#ifdef __AVX512F__
#define TRIREME_INTRINSIC(name) _mm512_##name
#else
#define TRIREME_INTRINSIC(name) _mm256_##name
#endif

// Lane-wise maximum and minimum; b if either is NaN. (Each is one instruction, which the
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

// a * b - c with a single rounding.
TRIREME_INLINE Vec<float> multiply_subtract(Vec<float> a, Vec<float> b, Vec<float> c) {
  return map<float>([](auto x, auto y, auto z)
                        TRIREME_INLINE_LAMBDA { return TRIREME_INTRINSIC(fmsub_ps)(x, y, z); },
                    a, b, c);
}

// Combines all lanes by halves: lane i with lane i + 8, then i + 4, and so on.
template <class E, class Combine>
TRIREME_INLINE E fold_lanes(Vec<E> x, Combine combine) {
  typename Vec<E>::Part all = x.part[0];
  if constexpr (Vec<E>::parts == 2) all = combine(all, x.part[1]);
  constexpr int count = register_bytes / sizeof(E);
  if constexpr (count == 16) {
    all = combine(all, shuffle<8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7>(all));
    all = combine(all, shuffle<4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15>(all));
    all = combine(all, shuffle<2, 3, 0, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>(all));
    all = combine(all, shuffle<1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>(all));
  } else if constexpr (count == 8) {
    all = combine(all, shuffle<4, 5, 6, 7, 0, 1, 2, 3>(all));
    all = combine(all, shuffle<2, 3, 0, 1, 4, 5, 6, 7>(all));
    all = combine(all, shuffle<1, 0, 2, 3, 4, 5, 6, 7>(all));
  } else {
    all = combine(all, shuffle<2, 3, 0, 1>(all));
    all = combine(all, shuffle<1, 0, 2, 3>(all));
  }
  return all[0];
}

template <class E>
TRIREME_INLINE E sum_lanes(Vec<E> x) {
  return fold_lanes(x, [](auto a, auto b) TRIREME_INLINE_LAMBDA { return a + b; });
}

template <class E>
TRIREME_INLINE E max_lanes(Vec<E> x) {
  return fold_lanes(x, [](auto a, auto b) TRIREME_INLINE_LAMBDA { return choose(a < b, b, a); });
}

}  // namespace trireme::cpu::TRIREME_ISA
