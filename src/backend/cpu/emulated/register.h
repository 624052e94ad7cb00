// A 512-bit register of the emulation of AMX: two 256-bit registers, with the operators that GCC
// gives to vectors. (GCC's own 64-byte vectors are correct without AVX-512 too, but it takes
// their comparisons and permutations apart lane by lane.)
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <type_traits>
#include <utility>

// Same as in kernels/vec.h, which is included later.
#define TRIREME_INLINE inline __attribute__((always_inline))

namespace trireme::cpu::amx_emulated {

template <class E>
struct alignas(64) Register {
  typedef E Half __attribute__((vector_size(32)));
  static constexpr int half_lanes = 32 / sizeof(E);

  Half low, high;

  Register() = default;
  TRIREME_INLINE Register(Half l, Half h) : low(l), high(h) {}
  // Reinterprets the bits.
  template <class From>
  TRIREME_INLINE explicit Register(Register<From> x) : low((Half)x.low), high((Half)x.high) {}

  // A lane to be read or set. (A reference would force the register into memory.)
  struct Lane {
    Register& all;
    int place;
    TRIREME_INLINE operator E() const { return std::as_const(all)[place]; }
    TRIREME_INLINE void operator=(E value) const {
      (place < half_lanes ? all.low[place] : all.high[place - half_lanes]) = value;
    }
  };
  TRIREME_INLINE Lane operator[](int place) { return {*this, place}; }
  TRIREME_INLINE E operator[](int place) const {
    return place < half_lanes ? low[place] : high[place - half_lanes];
  }
};

#define TRIREME_REGISTER_OPERATOR(op)                                    \
  template <class E>                                                     \
  TRIREME_INLINE Register<E> operator op(Register<E> a, Register<E> b) { \
    return {a.low op b.low, a.high op b.high};                           \
  }
TRIREME_REGISTER_OPERATOR(+)
TRIREME_REGISTER_OPERATOR(-)
TRIREME_REGISTER_OPERATOR(*)
TRIREME_REGISTER_OPERATOR(/)
TRIREME_REGISTER_OPERATOR(&)
TRIREME_REGISTER_OPERATOR(|)
TRIREME_REGISTER_OPERATOR(^)
#undef TRIREME_REGISTER_OPERATOR

template <class E>
TRIREME_INLINE Register<E> operator~(Register<E> x) {
  return {~x.low, ~x.high};
}
template <class E>
TRIREME_INLINE Register<E> operator-(E value, Register<E> x) {
  return {value - x.low, value - x.high};
}
template <class E>
TRIREME_INLINE Register<E> operator<<(Register<E> x, int bits) {
  return {x.low << bits, x.high << bits};
}
template <class E>
TRIREME_INLINE Register<E> operator>>(Register<E> x, int bits) {
  return {x.low >> bits, x.high >> bits};
}

// All bits of a lane are set where a comparison is true.
template <class E>
using MaskOf = Register<std::conditional_t<sizeof(E) == 4, std::int32_t, std::int64_t>>;

#define TRIREME_REGISTER_COMPARISON(op)                                \
  template <class E>                                                   \
  TRIREME_INLINE MaskOf<E> operator op(Register<E> a, Register<E> b) { \
    using Half = typename MaskOf<E>::Half;                             \
    return {(Half)(a.low op b.low), (Half)(a.high op b.high)};         \
  }
TRIREME_REGISTER_COMPARISON(<)
TRIREME_REGISTER_COMPARISON(==)
#undef TRIREME_REGISTER_COMPARISON

// What kernels/vec.h has for the compiler's vectors.
template <class Mask, class E>
TRIREME_INLINE Register<E> choose(Register<Mask> mask, Register<E> yes, Register<E> no) {
  return {mask.low ? yes.low : no.low, mask.high ? yes.high : no.high};
}

// By halves, which the compiler copies in one piece each.
template <class E>
TRIREME_INLINE void read_part(Register<E>& part, const void* from) {
  __builtin_memcpy(&part.low, from, 32);
  __builtin_memcpy(&part.high, static_cast<const char*>(from) + 32, 32);
}
template <class E>
TRIREME_INLINE void write_part(void* to, Register<E> part) {
  __builtin_memcpy(to, &part.low, 32);
  __builtin_memcpy(static_cast<char*>(to) + 32, &part.high, 32);
}

template <int... lane, class E>
TRIREME_INLINE Register<E> shuffle(Register<E> x) {
  constexpr int from[] = {lane...};
  constexpr int half = Register<E>::half_lanes;
  return [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    return Register<E>{__builtin_shufflevector(x.low, x.high, from[i]...),
                       __builtin_shufflevector(x.low, x.high, from[half + i]...)};
  }
  (std::make_integer_sequence<int, half>());
}

}  // namespace trireme::cpu::amx_emulated
