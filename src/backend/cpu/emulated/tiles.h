// Emulation of the AMX instructions that our kernels use, under the names of the compiler's
// intrinsics, which they hide within their namespace. Each thread has eight tiles.
//
// Processor faults (tiles not configured, shapes that do not fit) become errors: misused() ends the
// test with a description of the fault.
#pragma once

#include <cstdint>

// Macros of the compiler's header.
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps

namespace trireme::cpu::amx_emulated {

[[noreturn]] void misused(const char* what);

void _tile_loadconfig(const void* config);
void _tile_release();
void _tile_zero(int tile);
// Rows are `stride` bytes apart.
void _tile_loadd(int tile, const void* from, std::int64_t stride);
void _tile_stream_loadd(int tile, const void* from, std::int64_t stride);
void _tile_stored(int tile, void* to, std::int64_t stride);
// sums += a b with the roundings of TDPBF16PS.
void _tile_dpbf16ps(int sums, int a, int b);

}  // namespace trireme::cpu::amx_emulated
