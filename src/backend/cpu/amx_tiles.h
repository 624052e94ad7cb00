// Blocks of bf16 matrix products on AMX tiles: multiplication and storing of results.
//
// Sums are float, in the order of k; they never depend on how work is cut.
#pragma once

#include "backend/cpu/amx_pack.h"

namespace trireme::cpu::amx {

// Where results go. bias may be null; it has one element per column.
struct Destination {
  void* data;
  std::int64_t ld;
  std::int64_t rows, cols;
  bool is_float;  // else bf16
  bool accumulate;
  bool stream;  // past the caches: for results that would not stay in them
  const bf16* bias;
};

// One task: C for a range of vectors of the inner operand, which it packs for itself, and a range
// of vectors of the outer operand, which is packed already, with all of k, and shared by all tasks.
struct Task {
  Operand inner;
  Range inner_vectors;
  const char* outer;  // the panel of outer_vectors.begin
  Range outer_vectors;
  Destination dst;
  char* scratch;  // scratch_bytes, aligned to 64 bytes
};

// Private memory of a task: a fixed size, so that each thread can keep its own.
constexpr std::int64_t scratch_bytes = 3 << 20;

// Inner vectors that are packed and multiplied together; a task takes one or more such blocks.
constexpr std::int64_t inner_block = 512;

// The longest range of outer vectors that a task may have for a given k.
std::int64_t max_outer_vectors(std::int64_t k);

void run(const Task& task);

}  // namespace trireme::cpu::amx

namespace trireme::cpu::amx_emulated {

std::int64_t max_outer_vectors(std::int64_t k);
void run(const Task& task);

}  // namespace trireme::cpu::amx_emulated
