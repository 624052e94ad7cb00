// Rounding to fp8 with a scale for each tile of a matrix, on the CPU, which has no products of
// 8-bit numbers: what is rounded stays in the type of arithmetic, and a product of that type reads
// it. T is float, bf16, f16 or double.
#pragma once

#include <cstdint>

#include "backend/kernels.h"
#include "tensor/fp8.h"

namespace trireme::cpu {

// A matrix cut into tiles. Rows come in runs (sequences, or the rows of an expert) that no tile
// leaves; the last tiles of a run and of a row may be smaller.
struct Fp8Tiles {
  std::int64_t rows, cols;
  std::int64_t run;  // divides rows
  std::int64_t tile_rows, tile_cols;
  Fp8Type type;
  bool power_of_2_scales;
  // Runs of any length instead: the rows [offsets[g], offsets[g + 1]) of each of so many groups.
  // What belongs to none is neither read nor written.
  const std::int32_t* offsets = nullptr;
  std::int64_t groups = 0;

  std::int64_t tiles_of_row() const { return (cols + tile_cols - 1) / tile_cols; }
  // Rows of tiles, in a run and in all, and the one that a row lies in.
  std::int64_t bands_of_run() const { return (run + tile_rows - 1) / tile_rows; }
  std::int64_t bands() const {
    return groups > 0 ? rows / tile_rows + groups : rows / run * bands_of_run();
  }
  // That with which a group begins, whatever its length and those of others: some bands may be
  // left over between groups.
  std::int64_t first_band(std::int64_t group) const { return offsets[group] / tile_rows + group; }
  std::int64_t band_of(std::int64_t row) const {
    return row / run * bands_of_run() + row % run / tile_rows;
  }
  std::int64_t count() const { return bands() * tiles_of_row(); }
};

// largest [tiles.count()]: the largest magnitude in each tile, as a float; NaN counts as nothing.
template <class T>
void fp8_largest(float* largest, const T* x, const Fp8Tiles& tiles);
// y = x as it is after rounding to fp8: with s = fp8_scale(largest), float(x) * s is rounded, and
// multiplied by 1 / s, both in float. What is not finite becomes NaN.
template <class T>
void fp8_round(Acc<T>* y, const T* x, const float* largest, const Fp8Tiles& tiles);
// y = x + bias, row by row; bias may be null.
template <class T>
void store_sums(T* y, const Acc<T>* x, const T* bias, std::int64_t rows, std::int64_t cols);

}  // namespace trireme::cpu
