// The tile instructions used by amx_tiles.cpp. A tile here is 16 rows
// of 64 bytes without gaps.
#pragma once

#include <immintrin.h>

#include "backend/cpu/amx_pack.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

#ifdef TRIREME_EMULATED_AMX

template <int tile>
void load(const void* from) {
  _tile_loadd(tile, from, 64);
}
template <int tile>
void load_stream(const void* from) {
  _tile_stream_loadd(tile, from, 64);
}
template <int tile>
void store(void* to) {
  _tile_stored(tile, to, 64);
}
template <int tile>
void clear() {
  _tile_zero(tile);
}
template <int sums, int a, int b>
void multiply_add() {
  _tile_dpbf16ps(sums, a, b);
}

#else

// The compiler's tile intrinsics do not tell it which memory they read, and take
// only literals as constants.
using TileBytes = char[tile_bytes];

template <int tile>
void load(const void* from) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(64L), "i"(tile),
                   "m"(*static_cast<const TileBytes*>(from)));
}

// With a non-temporal hint: the lines are not needed again soon.
template <int tile>
void load_stream(const void* from) {
  __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(64L), "i"(tile),
                   "m"(*static_cast<const TileBytes*>(from)));
}

template <int tile>
void store(void* to) {
  __asm__ volatile("tilestored %%tmm%c3, (%1,%2,1)"
                   : "=m"(*static_cast<TileBytes*>(to))
                   : "r"(to), "r"(64L), "i"(tile));
}

template <int tile>
void clear() {
  __asm__ volatile("tilezero %%tmm%c0" ::"i"(tile));
}

// sums += a b
template <int sums, int a, int b>
void multiply_add() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(a), "i"(b));
}

#endif

}  // namespace
}  // namespace trireme::cpu::TRIREME_ISA
