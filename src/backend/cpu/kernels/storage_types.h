// The storage types for which the kernels of an instruction set are compiled.
#pragma once

#include "backend/cpu/kernels.h"

// fp64, which is for comparisons, uses the kernels for AVX2 on every processor. AMX speeds up bf16
// only: the other types use the kernels for AVX-512 there. The emulation of AMX also has its own
// kernels for these, since it runs on processors without AVX-512.
#define TRIREME_TYPES_avx2(X, ...) \
  TRIREME_TYPES_avx512(X, __VA_ARGS__) X(double __VA_OPT__(, ) __VA_ARGS__)
#define TRIREME_TYPES_avx512(X, ...)  \
  X(float __VA_OPT__(, ) __VA_ARGS__) \
  X(bf16 __VA_OPT__(, ) __VA_ARGS__) X(f16 __VA_OPT__(, ) __VA_ARGS__)
#define TRIREME_TYPES_amx(X, ...) X(bf16 __VA_OPT__(, ) __VA_ARGS__)
#define TRIREME_TYPES_amx_emulated(X, ...) TRIREME_TYPES_avx512(X, __VA_ARGS__)

// TRIREME_FOR_EACH_TYPE(X, arguments...) expands X(T, arguments...) for each type T of TRIREME_ISA.
#define TRIREME_FOR_EACH_TYPE(...) TRIREME_FOR_EACH_TYPE_OF(TRIREME_ISA, __VA_ARGS__)
#define TRIREME_FOR_EACH_TYPE_OF(isa, ...) TRIREME_TYPES_(isa)(__VA_ARGS__)
#define TRIREME_TYPES_(isa) TRIREME_TYPES_##isa
