// Blocks of bf16 matrix products on AMX tiles: packing, multiplication, and storing of results.
//
// Both operands are packed into panels of 32 vectors (rows of A, columns of B). A panel is a
// sequence of steps of 32 along k; a step is two tiles of 16 vectors, 1 KiB each, in the form that
// TDPBF16PS reads: A as [16 vectors][32 k], B as [16 pairs of k][16 vectors][2]. Vectors and k are
// padded with zeros. Sums are float, in the order of k, and never depend on how work is cut.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace trireme::cpu::amx {

constexpr std::int64_t panel_vectors = 32;
constexpr std::int64_t step_k = 32;
constexpr std::int64_t step_bytes = 2048;   // of a panel: two tiles
constexpr std::int64_t block_floats = 1024;  // of C: 32 x 32, as four tiles

enum class Side : std::uint8_t { a, b };

// One operand in memory: `vectors` rows of A or columns of B, each of k elements.
struct Operand {
  const bf16* data;
  std::int64_t vectors, k;
  std::int64_t ld;    // elements between vectors if k is contiguous, else between successive k
  bool k_contiguous;
  Side side;
};

struct Range {
  std::int64_t begin, end;
  std::int64_t length() const { return end - begin; }
};

// Packs a rectangle; both ranges begin at multiples of 32. dst points at the panel of
// vectors.begin and the step of k.begin; panel_bytes lie between panels.
void pack(char* dst, std::int64_t panel_bytes, const Operand& operand, Range vectors, Range k);

// Where results go. bias may be null; it has one element per column.
struct Destination {
  void* data;
  std::int64_t ld;
  std::int64_t rows, cols;
  bool is_float;  // else bf16
  bool accumulate;
  const bf16* bias;
};

// One task: C for a range of vectors of the inner operand, packed here into private memory, and a
// range of panels of the outer operand, which is packed already and shared by all tasks.
struct Task {
  Operand inner;
  Range inner_vectors;
  const char* outer;           // packed panels of the whole k, of which the first is outer_first
  std::int64_t outer_first;    // vector where `outer` begins
  Range outer_vectors;         // a multiple of 32 after outer_first
  Destination dst;
  char* scratch;               // scratch_bytes, aligned to 64 bytes
};

// Private memory of a task: a fixed size, so that each thread can keep its own.
constexpr std::int64_t scratch_bytes = 2 << 20;

// The longest ranges that a task may have for a given k.
std::int64_t max_inner_vectors(std::int64_t k);
std::int64_t max_outer_vectors(std::int64_t k);

void run(const Task& task);

}  // namespace trireme::cpu::amx
