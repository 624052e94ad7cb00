// Split of a product into tiles for oneDNN, each computed by one thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/gemm_problem.h"

namespace trireme::cpu {

// Partition of [0, size) into pieces of `piece`, with a smaller last one.
struct Cut {
  std::int64_t size, piece;
  std::int64_t count() const { return ceil_div(size, piece); }
  std::int64_t begin(std::int64_t i) const { return i * piece; }
  std::int64_t length(std::int64_t i) const { return std::min(piece, size - begin(i)); }
  std::int64_t end(std::int64_t i) const { return begin(i) + length(i); }
  bool is_last(std::int64_t i) const { return i + 1 == count(); }
};

// Pieces of about equal length, at most `most`, in multiples of 32.
inline Cut cut_evenly(std::int64_t size, std::int64_t most) {
  return {size, std::min(size, round_up(ceil_div(size, ceil_div(size, most)), 32))};
}

struct Tiling {
  Cut rows, cols;
};

constexpr std::int64_t most_tile_rows = 256, most_tile_cols = 384;

// oneDNN performs best on large tiles, but there should be enough for the threads; tiles of less
// than a few million multiplications are not worth distributing.
inline Tiling choose_tiling(const GemmProblem& p) {
  constexpr std::int64_t wanted_tiles = 16, least_work = 1 << 21;
  std::int64_t rows = most_tile_rows, cols = most_tile_cols;
  for (;;) {
    const Tiling tiling{cut_evenly(p.m, rows), cut_evenly(p.n, cols)};
    const auto [r, c] = std::pair(tiling.rows.piece, tiling.cols.piece);
    const bool enough = tiling.rows.count() * tiling.cols.count() >= wanted_tiles;
    if (enough || r * c * p.k <= least_work || std::max(r, c) <= 32) return tiling;
    (r >= c ? rows : cols) = std::max(r, c) / 2;
  }
}

// The bias is written to C first and the product accumulated: oneDNN itself would first store each
// tile's product in scratch memory.
template <class T>
void start_with_bias(T* c, std::int64_t rows, std::int64_t cols, std::int64_t ld, const T* bias,
                     bool accumulate) {
  for (std::int64_t i = 0; i < rows; ++i, c += ld) {
    if (!accumulate) {
      std::copy_n(bias, cols, c);
    } else {
      for (std::int64_t j = 0; j < cols; ++j) {
        c[j] = T(static_cast<float>(c[j]) + static_cast<float>(bias[j]));
      }
    }
  }
}

}  // namespace trireme::cpu
