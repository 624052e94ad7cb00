// Pieces of matrices staged in shared memory.
#pragma once

#include "backend/gpu/copies.h"
#include "backend/gpu/tile.h"

namespace trireme::gpu {

// A row-major matrix in device memory, or its remainder from some element on.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t pitch;          // row stride in elements
  std::int64_t rows, columns;  // readable size; elements beyond it read as zeros
  bool in_packs;               // rows are 16-byte aligned, and so is their length

  GPU_FN Matrix from(std::int64_t row, std::int64_t column) const {
    return {data + row * pitch + column, pitch, rows - row, columns - column, in_packs};
  }
};

// Returns whether the matrix can be read 16 bytes at a time.
template <class T>
bool lies_in_packs(const T* data, std::int64_t pitch, std::int64_t columns) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && pitch % pack_width<T> == 0 &&
         columns % pack_width<T> == 0;
}

// Copies the upper left of `from` to to[rows, tile_pitch(columns)], complete after the next commit,
// wait and barrier. All `threads` threads of the block participate. `packs`: the matrix is known to
// be readable in packs.
template <int rows, int columns, int threads, bool packs = false, class T>
GPU_FN void stage(Copies& copies, T* to, const Matrix<T>& from) {
  constexpr int pitch = tile_pitch<T>(columns);
  const int thread = recomputed(static_cast<int>(thread_index()));
  if (packs || from.in_packs) {
    constexpr int row_packs = columns / pack_width<T>, packs_of_all = rows * row_packs;
    const int valid_rows = recomputed(static_cast<int>(from.rows < rows ? from.rows : rows));
    const int first_row = thread / row_packs, first_column = thread % row_packs * pack_width<T>;
    const T* next = from.data + first_row * from.pitch + first_column;
#pragma unroll
    for (int first = 0; first < packs_of_all; first += threads) {
      if (packs_of_all % threads != 0 && first + thread >= packs_of_all) break;
      if constexpr (threads % row_packs == 0) {
        // Whole rows at a time: addresses that follow from those before need no registers.
        const int row = first_row + first / row_packs;
        const bool valid = row < valid_rows && first_column < from.columns;
        copies.copy_pack(to + row * pitch + first_column, valid ? next : from.data, valid);
        next = recomputed(next + threads / row_packs * from.pitch);
      } else {
        const int i = first + thread, row = i / row_packs, column = i % row_packs * pack_width<T>;
        const bool valid = row < valid_rows && column < from.columns;
        copies.copy_pack(to + row * pitch + column,
                         valid ? from.data + row * from.pitch + column : from.data, valid);
      }
    }
  } else {
    for (int i = thread; i < rows * columns; i += threads) {
      const int row = i / columns, column = i % columns;
      const bool valid = row < from.rows && column < from.columns;
      to[row * pitch + column] = valid ? from.data[row * from.pitch + column] : from_float<T>(0);
    }
  }
}

}  // namespace trireme::gpu
