// Blocks of float products on AVX2: packing of operands, and their multiplication in the order of
// gemm_order.h.
#pragma once

#include "backend/cpu/gemm_order.h"

namespace trireme::cpu::avx2 {

// The k that are packed and multiplied together: one block of k, or some of the shorter ones.
constexpr std::int64_t most_span = 288;

// A packed by rows has this many floats between rows, which do not collide in the caches.
constexpr std::int64_t packed_row_floats = most_k_block + 8;
// A packed by groups has `group_rows` floats for each k, and space for the last store.
constexpr std::int64_t group_floats(std::int64_t k) {
  return group_rows * k + 8;
}
// Groups of a tile: each of its pieces, of 24 rows or more if there are several, has a smaller one.
constexpr std::int64_t most_groups = most_tile_rows / group_rows + most_tile_rows / 24;
constexpr std::int64_t most_packed_a =
    std::max(most_tile_rows * packed_row_floats, most_groups* group_floats(most_span));

// A span of k of an operand in memory: `vectors` rows of A, or columns of B.
template <class T>
struct Source {
  const T* data;
  std::int64_t ld;
  bool k_contiguous;
  std::int64_t vectors, k;
};

// Packs the rows of a tile of A: by rows if k is contiguous, else by groups. `readable` elements
// may be read from each row of a source whose k is not contiguous.
template <class T>
void pack_a(float* dst, const Source<T>& a, bool b_transposed, std::int64_t readable);

// Packs columns of B into panels [k][panel_cols], the last one filled up with zeros.
template <class T>
void pack_b(float* dst, const Source<T>& b);

// C[rows, cols] = A B, or += A B, for a tile's rows and a span of k.
struct Block {
  const float* a;
  bool a_by_rows;
  const float* b;  // the panel of the first column
  bool b_transposed;
  std::int64_t rows, cols;
  const std::int64_t* k_begins;  // where the blocks of k begin, and where the last one ends
  std::int64_t k_blocks;
  float* c;
  std::int64_t ldc;
  bool accumulate;

  std::int64_t k() const { return k_begins[k_blocks] - k_begins[0]; }
};
void multiply(const Block& block);

}  // namespace trireme::cpu::avx2
