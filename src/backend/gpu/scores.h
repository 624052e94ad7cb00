// Tiles of attention scores X Y^T, 16 rows of X by 16 rows of Y, kept in registers: a wave turns
// them into the left operand of the next product. On NVIDIA the tile's registers already have that
// layout; on AMD those of the transposed tile do, so the transpose is computed there.
#pragma once

#include "backend/gpu/tile.h"

namespace trireme::gpu {

inline constexpr bool scores_transposed = !std::is_same_v<TileMap, MmaMap>;

template <class T>
using ScoreRows = std::conditional_t<scores_transposed, RightTile<T>, LeftTile<T>>;
template <class T>
using ScoreColumns = std::conditional_t<scores_transposed, LeftTile<T>, RightTile<T>>;

// Loads 16 rows of X, 16 elements of each. X and Y are row-major.
template <class T>
GPU_FN ScoreRows<T> load_score_rows(const T* p, int pitch) {
  if constexpr (scores_transposed) {
    return load_right_transposed(p, pitch);
  } else {
    return load_left(p, pitch);
  }
}
template <class T>
GPU_FN ScoreColumns<T> load_score_columns(const T* p, int pitch) {
  if constexpr (scores_transposed) {
    return load_left(p, pitch);
  } else {
    return load_right_transposed(p, pitch);
  }
}

template <class T, int rows, int columns>
GPU_FN void multiply_scores(SumTile (&scores)[rows][columns], const ScoreRows<T> (&x)[rows],
                            const ScoreColumns<T> (&y)[columns]) {
  if constexpr (scores_transposed) {
    multiply<true>(scores, y, x);
  } else {
    multiply(scores, x, y);
  }
}

// --- layout of the scores of a lane: register i is that of row slot score_row_slot(i) ... ---

inline constexpr int score_row_slots = scores_transposed ? TileMap::sum_columns : TileMap::sum_rows;
inline constexpr int score_column_slots =
    scores_transposed ? TileMap::sum_rows : TileMap::sum_columns;
constexpr int score_row_slot(int i) {
  return scores_transposed ? TileMap::column_slot(i) : TileMap::row_slot(i);
}
constexpr int score_column_slot(int i) {
  return scores_transposed ? TileMap::row_slot(i) : TileMap::column_slot(i);
}
GPU_FN int score_row(int slot) {
  return scores_transposed ? sum_column(slot) : sum_row(slot);
}
GPU_FN int score_column(int slot) {
  return scores_transposed ? sum_row(slot) : sum_column(slot);
}

// Reduces over the lanes that hold the same rows.
template <class Combine>
GPU_FN float over_score_row(float v, const Combine& combine) {
  constexpr int first = scores_transposed ? 16 : 1, end = scores_transposed ? wave_width : 4;
#pragma unroll
  for (int mask = first; mask < end; mask *= 2) v = combine(v, shuffle_xor(v, mask));
  return v;
}

// Converts a lane's per-row values from the layout of scores to that of sums.
GPU_FN void to_sum_rows(float (&of_sums)[TileMap::sum_rows],
                        const float (&of_scores)[score_row_slots]) {
#pragma unroll
  for (int r = 0; r < TileMap::sum_rows; ++r) {
    if constexpr (scores_transposed) {
      of_sums[r] = shuffle(of_scores[0], sum_row(r));  // each lane below 16 holds one row
    } else {
      of_sums[r] = of_scores[r];
    }
  }
}

// --- scores as the left operand ---

namespace detail {

template <class T>
GPU_FN LeftTile<T> rounded_left(const SumTile& scores) {
  LeftTile<T> left;
  if constexpr (std::is_same_v<TileMap, WmmaMap>) {
    // A lane holds every other step of its row; the lane 16 away holds the rest.
    const int odd = lane() / 16;
#pragma unroll
    for (int i = 0; i < TileMap::sums; ++i) {
      const float other = shuffle_xor(scores.v[i], 16);
      left.v[2 * i] = from_float<T>(odd ? other : scores.v[i]);
      left.v[2 * i + 1] = from_float<T>(odd ? scores.v[i] : other);
    }
  } else {
#pragma unroll
    for (int i = 0; i < TileMap::sums; i += 2) {
      const Pack<T, 2> pair = from_floats<T>(scores.v[i], scores.v[i + 1]);
      left.v[i] = pair.v[0];
      left.v[i + 1] = pair.v[1];
    }
  }
  return left;
}

}  // namespace detail

// Converts a column of tiles to left operands of type T. All lanes of the wave participate.
template <class T, int rows, int columns>
GPU_FN void as_left(LeftTile<T> (&left)[rows], const SumTile (&scores)[rows][columns], int column) {
#pragma unroll
  for (int r = 0; r < rows; ++r) left[r] = detail::rounded_left<T>(scores[r][column]);
}

}  // namespace trireme::gpu
