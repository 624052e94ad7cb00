// Sizes of the blocks of attention on matrix units, per kind of unit.
//
// Each 16 x 16 tile that a wave reads from shared memory costs four cycles there (512 bytes), and
// feeds as many products as the wave has tiles of rows. With one such tile shared memory bounds the
// kernels, at 44% of an H100's peak; with two the matrix units do. What limits the sizes is
// registers, counted per lane: NVIDIA has 255, of which a tile of sums takes 8 and an operand 4;
// CDNA has 256 if each SIMD is to have two waves, and waves of 64 lanes (4 and 2); RDNA has 256 (8
// and 8, operands lie twice).
#pragma once

#include <algorithm>

#include "backend/gpu/kernels/attention.h"
#include "backend/gpu/tile.h"

namespace trireme::gpu {

// A block owns `rows` rows of one side, each wave some of them, and walks over the other side in
// tiles of `columns` rows, of which `buffers` are in shared memory. `held` of the tensors of its
// own rows are in registers, the others in shared memory. Rows and threads are the same for all of
// AMD's.
struct BlockSizes {
  int rows, threads, columns, buffers, held;
};

// Owns queries. NVIDIA: two blocks per multiprocessor by registers, and at most 70 KB of shared
// memory, of which two blocks fit from sm_80 on. CDNA: at most 18 KB of 64 up to a head_dim of
// 128, for six waves or more per compute unit.
constexpr BlockSizes forward_sizes(Unit unit, int d, Form form) {
  if (unit == Unit::mma) {
    if (form != Form::dense)
      return {.rows = 64, .threads = 128, .columns = d <= 128 ? 64 : 32, .buffers = 1, .held = 0};
    if (d <= 64) return {.rows = 128, .threads = 128, .columns = 64, .buffers = 1, .held = 1};
    if (d <= 128) return {.rows = 128, .threads = 128, .columns = 64, .buffers = 1, .held = 0};
    return {.rows = 64, .threads = 128, .columns = 32, .buffers = 1, .held = 0};
  }
  if (d > 128) return {.rows = 64, .threads = 128, .columns = 16, .buffers = 1, .held = 0};
  if (unit == Unit::wmma)
    return {.rows = 64, .threads = 128, .columns = 16, .buffers = 1, .held = d <= 64 ? 1 : 0};
  return {.rows = 64, .threads = 128, .columns = d <= 64 ? 64 : 32, .buffers = 1, .held = 1};
}

// Owns keys: half of the waves sum dv, the other half dk (attention_keys.h).
constexpr BlockSizes keys_sizes(Unit unit, int d, Form form) {
  if (unit == Unit::mma) {
    if (d <= 64) return {.rows = 64, .threads = 128, .columns = 64, .buffers = 2, .held = 1};
    if (d > 128) return {.rows = 32, .threads = 128, .columns = 32, .buffers = 2, .held = 1};
    return {.rows = 64,
            .threads = form == Form::dense ? 128 : 256,
            .columns = 32,
            .buffers = 2,
            .held = 1};
  }
  if (d > 128) return {.rows = 32, .threads = 128, .columns = 16, .buffers = 1, .held = 0};
  const bool narrow = unit == Unit::wmma && d > 64;
  return {.rows = 64,
          .threads = 256,
          .columns = narrow ? 16 : 32,
          .buffers = 1,
          .held = narrow ? 0 : 1};
}

// Owns queries, with two tensors: q, and dctx, which is held first.
constexpr BlockSizes queries_sizes(Unit unit, int d, Form form) {
  if (unit == Unit::mma) {
    if (d <= 64) return {.rows = 128, .threads = 128, .columns = 32, .buffers = 2, .held = 2};
    if (d > 128) return {.rows = 64, .threads = 128, .columns = 16, .buffers = 2, .held = 1};
    if (form == Form::dense)
      return {.rows = 128, .threads = 128, .columns = 16, .buffers = 2, .held = 1};
    return {.rows = 64, .threads = 128, .columns = 32, .buffers = 2, .held = 2};
  }
  if (d > 128) return {.rows = 32, .threads = 64, .columns = 16, .buffers = 1, .held = 0};
  const bool wmma = unit == Unit::wmma && d > 64, narrow = wmma || (d > 64 && form != Form::dense);
  return {.rows = 64,
          .threads = 128,
          .columns = narrow ? 16 : 32,
          .buffers = 1,
          .held = wmma                             ? 0
                  : narrow && form == Form::capped ? 1
                                                   : 2};
}

// Shared memory of a block of rows of head_dim (at most d, padded).
template <class T, int d>
struct RowBytes {
  static constexpr int pitch = tile_pitch<T>(d);
  static constexpr int row_bytes = pitch * static_cast<int>(sizeof(T));
  // Tiles of the other side, where the block's own rows that are held in registers pass through
  // before, one tensor at a time.
  static constexpr int passing(const BlockSizes& s) {
    return std::max(2 * s.buffers * s.columns, s.held > 0 ? s.rows : 0) * row_bytes;
  }
};

}  // namespace trireme::gpu
