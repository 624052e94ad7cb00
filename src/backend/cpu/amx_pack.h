// Packing of bf16 operands into the layout that AMX tiles are loaded from.
//
// Both operands of a product are packed into panels of 32 vectors (rows of A, columns of B). A
// panel is a sequence of steps of 32 along k; a step is two tiles of 16 vectors, 1 KiB each, in the
// layout that TDPBF16PS reads: A as [16 vectors][32 k], B as [16 pairs of k][16 vectors][2].
// Vectors and k are padded with zeros.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace trireme::cpu::amx {

constexpr std::int64_t panel_vectors = 32;
constexpr std::int64_t step_k = 32;
constexpr std::int64_t tile_bytes = 1024, step_bytes = 2 * tile_bytes;

constexpr std::int64_t panels_of(std::int64_t vectors) {
  return (vectors + panel_vectors - 1) / panel_vectors;
}
constexpr std::int64_t steps_of(std::int64_t k) {
  return (k + step_k - 1) / step_k;
}

enum class Side : std::uint8_t { a, b };

// One operand in memory: `vectors` rows of A or columns of B, each of k elements.
struct Operand {
  const bf16* data;
  std::int64_t vectors, k;
  std::int64_t ld;  // elements between vectors if k is contiguous, else between successive k
  bool k_contiguous;
  Side side;
};

struct Range {
  std::int64_t begin, end;
  std::int64_t length() const { return end - begin; }
};

// Packs a rectangle of an operand. Both ranges start at multiples of 32; dst points to the panel of
// vectors.begin and the step of k.begin, and panels are panel_bytes apart.
void pack(char* dst, std::int64_t panel_bytes, const Operand& operand, Range vectors, Range k);

}  // namespace trireme::cpu::amx

// Same code, compiled for the emulation of the tile unit.
namespace trireme::cpu::amx_emulated {

using namespace amx;
void pack(char* dst, std::int64_t panel_bytes, const Operand& operand, Range vectors, Range k);

}  // namespace trireme::cpu::amx_emulated
