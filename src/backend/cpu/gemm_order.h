// The order in which float products on AVX2 sum: that of oneDNN 2.6's dnnl_sgemm, so that a product
// has the same bits whether our own code or oneDNN runs it.
//
// dnnl_sgemm runs once per tile of choose_tiling. It sums each block of k separately and adds the
// blocks' sums to C in order. Within a block, an element has one chain of fused multiply-adds, or
// two that take turns, where its rows or columns are too few for the processor's latency.
#pragma once

#include <algorithm>

#include "backend/cpu/gemm_tiles.h"

namespace trireme::cpu {

// Rows and columns whose sums are kept in registers at once.
constexpr std::int64_t group_rows = 6, panel_cols = 16;

constexpr std::int64_t most_k_block = 256;
constexpr std::int64_t k_block_limit(const GemmProblem& p) {
  return p.a_transposed ? 96 : most_k_block;
}

// Length of the block of k that starts where `rest` is left: the last two are about equally long.
constexpr std::int64_t next_k_block(std::int64_t rest, std::int64_t limit) {
  return rest >= 2 * limit ? limit : rest > limit ? (rest + 1) / 2 : rest;
}

// Rows of a tile are cut into pieces, and each piece into groups of `group_rows` and a smaller one.
constexpr std::int64_t next_row_piece(std::int64_t rest, bool b_transposed) {
  const std::int64_t limit = b_transposed ? 96 : 48;
  return rest >= 2 * limit ? limit : 2 * rest > 3 * limit ? (rest + 1) / 2 : rest;
}

// Number of chains in an element's sum, and whether their multiply-adds are fused, for a group of
// `rows` rows and one or two `vectors` of eight columns.
constexpr int chains_of(int rows, int vectors) {
  return rows <= 3 || vectors == 1 ? 2 : 1;
}
constexpr bool is_fused(int rows) {
  return rows > 2;
}

// Returns whether dnnl_sgemm multiplies all tiles in this order. Tiles of one row or column have
// another one.
inline bool has_known_order(const GemmProblem& p) {
  const auto is_known = [](const Cut& cut) {
    return cut.piece > 1 && cut.length(cut.count() - 1) > 1;
  };
  const Tiling tiling = choose_tiling(p);
  return is_known(tiling.rows) && is_known(tiling.cols);
}

}  // namespace trireme::cpu
