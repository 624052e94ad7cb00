// Blocks of bf16 matrix products on AMX tiles: multiplication and storing of results.
//
// Sums are float, in the order of k, independent of the split of the work.
#pragma once

#include "backend/cpu/amx_pack.h"

namespace trireme::cpu::amx {

// Destination of results. bias may be null; it has one element per column.
struct Destination {
  void* data;
  std::int64_t ld;
  std::int64_t rows, cols;
  bool is_float;  // else bf16
  bool accumulate;
  bool stream;  // bypasses the caches, for results that would not stay in them
  const bf16* bias;
};

// One task: C for a range of vectors of the inner operand, which the task packs itself, and a range
// of vectors of the outer operand, which is already packed for all of k and shared by all tasks.
struct Task {
  Operand inner;
  Range inner_vectors;
  const char* outer;  // panel of outer_vectors.begin
  Range outer_vectors;
  Destination dst;
  char* scratch;  // scratch_bytes, aligned to 64 bytes
};

// Private memory of a task, of fixed size, so that each thread can keep its own.
constexpr std::int64_t scratch_bytes = 3 << 20;

// Inner vectors that are packed and multiplied together; a task takes one or more such blocks.
constexpr std::int64_t inner_block = 512;

// The longest range of outer vectors of a task for a given k.
std::int64_t max_outer_vectors(std::int64_t k);

void run(const Task& task);

}  // namespace trireme::cpu::amx

namespace trireme::cpu::amx_emulated {

std::int64_t max_outer_vectors(std::int64_t k);
void run(const Task& task);

}  // namespace trireme::cpu::amx_emulated
