// Tiles of attention on matrix units, for 16-bit types: the parts that the forward and both
// backward kernels share.
#pragma once

#include "backend/gpu/kernels/attention.h"
#include "backend/gpu/kernels/attention_sizes.h"
#include "backend/gpu/scores.h"

namespace trireme::gpu {

// Split of `rows` rows among the waves of `threads` threads.
template <int rows, int threads>
struct RowsOfWaves {
  static constexpr int waves = threads / wave_width;
  static constexpr int tiles = rows / tile_size / waves;  // per wave
  static_assert(tiles > 0);
  GPU_FN static int first() { return wave_index() % waves * tiles * tile_size; }
};

// Calls body.operator()<d>() with the smallest supported padded head_dim. Capped kernels exist for
// fewer sizes, since few models use caps, and those have large heads.
template <Form form, class Body>
void with_padded_head_dim(std::int64_t head_dim, const Body& body) {
  if (head_dim <= 64) return body.template operator()<64>();
  if constexpr (form != Form::capped) {
    if (head_dim <= 96) return body.template operator()<96>();
  }
  if (head_dim <= 128) return body.template operator()<128>();
  body.template operator()<256>();
}

// --- products ---

// A wave's own rows, `rows` tiles of d elements: in registers or in shared memory.
template <class T, int d, int rows, bool held>
class OwnRows {
 public:
  // Loads the rows, or remembers where they are.
  GPU_FN void set(const T* from) { at_ = from; }
  GPU_FN void begin() { now_ = at_ + recomputed(0); }
  GPU_FN ScoreRows<T> tile(int row, int step) const {
    return load_score_rows(now_ + row * tile_size * tile_pitch<T>(d) + step * tile_size,
                           tile_pitch<T>(d));
  }

 private:
  const T *at_, *now_;
};
template <class T, int d, int rows>
class OwnRows<T, d, rows, true> {
 public:
  GPU_FN void set(const T* from) {
    constexpr int pitch = tile_pitch<T>(d);
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int step = 0; step < d / tile_size; ++step)
        tiles_[r][step] = load_score_rows(from + r * tile_size * pitch + step * tile_size, pitch);
  }
  GPU_FN void begin() {}
  GPU_FN const ScoreRows<T>& tile(int row, int step) const {
    return tiles_[row][step];
  }

 private:
  ScoreRows<T> tiles_[rows][d / tile_size];
};

// Gives a wave its own rows of `from`, a tensor from the block's first row on, by way of `to` in
// shared memory: there rows that are not held stay, while those that are held leave it to others.
// Rows that are not held arrive with the next wait and barrier. All threads of the block
// participate; `first`: the wave's first row within the block; `mine`: whether the rows are the
// wave's.
template <int block_rows, int threads, bool packs, class T, int d, int rows, bool held>
GPU_FN void load_own(Copies& copies, OwnRows<T, d, rows, held>& own, const Matrix<T>& from, T* to,
                     int first, bool mine = true) {
  stage<block_rows, d, threads, packs>(copies, to, from);
  copies.commit();
  if constexpr (held) {
    copies.template wait_for_all_but<0>();
    sync_block();
  }
  if (mine) own.set(to + first * tile_pitch<T>(d));
  if constexpr (held) sync_block();  // others may take their place
}

// scores += X Y^T over d elements.
template <int d, class T, int rows, int columns, bool held>
GPU_FN void add_scores(SumTile (&scores)[rows][columns], OwnRows<T, d, rows, held>& x, const T* y) {
  constexpr int pitch = tile_pitch<T>(d);
  x.begin();
  y += recomputed(0);
#pragma unroll
  for (int step = 0; step < d / tile_size; ++step) {
    ScoreRows<T> a[rows];
    ScoreColumns<T> b[columns];
#pragma unroll
    for (int r = 0; r < rows; ++r) a[r] = x.tile(r, step);
#pragma unroll
    for (int c = 0; c < columns; ++c)
      b[c] = load_score_columns(y + c * tile_size * pitch + step * tile_size, pitch);
    multiply_scores<T>(scores, a, b);
  }
}

// sums += left Z, where Z is [16, d].
template <int d, class T, int rows>
GPU_FN void add_products(SumTile (&sums)[rows][d / tile_size], const LeftTile<T> (&left)[rows],
                         const T* z) {
  constexpr int pitch = tile_pitch<T>(d);
  // On RDNA, where operands take the most registers, two at a time.
  constexpr int all = d / tile_size, some = compiled_unit == Unit::wmma && rows == 1 ? 2 : all;
#pragma unroll
  for (int first = 0; first < all; first += some) {
    RightTile<T> right[some];
#pragma unroll
    for (int j = 0; j < some; ++j) right[j] = load_right(z + (first + j) * tile_size, pitch);
    multiply(reinterpret_cast<SumTile(&)[rows][some]>(sums[0][first]), left, right);
  }
}

// Scores rounded to T, as left operands of the next product, in half of the registers: for the
// forward pass, which keeps them over a barrier. The backward kernels round a column at a time.
template <class T, int rows, int columns>
struct RoundedScores {
  LeftTile<T> of[columns][rows];

  GPU_FN void set(const SumTile (&scores)[rows][columns]) {
#pragma unroll
    for (int c = 0; c < columns; ++c) as_left(of[c], scores, c);
  }
};

// sums += scores Z, where Z is [16 * columns, d].
template <int d, class T, int rows, int columns>
GPU_FN void add_weighted(SumTile (&sums)[rows][d / tile_size],
                         const RoundedScores<T, rows, columns>& scores, const T* z) {
  z += recomputed(0);
#pragma unroll
  for (int c = 0; c < columns; ++c)
    add_products<d>(sums, scores.of[c], z + c * tile_size * tile_pitch<T>(d));
}
template <int d, class T, int rows, int columns>
GPU_FN void add_weighted(SumTile (&sums)[rows][d / tile_size],
                         const SumTile (&scores)[rows][columns], const T* z) {
  z += recomputed(0);
#pragma unroll
  for (int c = 0; c < columns; ++c) {
    LeftTile<T> left[rows];
    as_left(left, scores, c);
    add_products<d>(sums, left, z + c * tile_size * tile_pitch<T>(d));
  }
}

// --- scores ---

// Calls body(score, row, column) for a lane's scores; row and column are within the wave's tiles.
template <int rows, int columns, class Body>
GPU_FN void each_score(SumTile (&scores)[rows][columns], const Body& body) {
#pragma unroll
  for (int r = 0; r < rows; ++r)
#pragma unroll
    for (int c = 0; c < columns; ++c)
#pragma unroll
      for (int i = 0; i < TileMap::sums; ++i)
        body(scores[r][c].v[i], r * tile_size + score_row(score_row_slot(i)),
             c * tile_size + score_column(score_column_slot(i)));
}

// Adds slope x (key - query) to a tile's scores, given its upper left row and column. Recomputed
// per tile: values kept in registers would cost them even without ALiBi.
template <bool keys_are_rows, class T, int rows, int columns>
GPU_FN void add_distances(SumTile (&scores)[rows][columns], const Attention<T>& a, int head,
                          int row, int column) {
  const float slope = a.slope(recomputed(head));
  const int ahead = recomputed(column) - recomputed(row);
  each_score(scores, [&](float& score, int at_row, int at_column) {
    const int distance = ahead + at_column - at_row;
    score += slope * static_cast<float>(keys_are_rows ? -distance : distance);
  });
}

// Dropout mask of a wave's scores: one draw covers eight keys of a query, unlike the lanes' layout,
// so each lane draws a part and all read the mask from shared memory.
template <int threads, int rows, int columns, bool keys_are_rows>
class KeptScores {
 public:
  static constexpr int queries = (keys_are_rows ? columns : rows) * tile_size;
  static constexpr int eighths = (keys_are_rows ? rows : columns) * 2;

  // Draws for the tile with this first query and key. All lanes of the wave participate.
  GPU_FN void draw(const AttentionMask& mask, int query, int key) {
    sync_wave();  // the previous draws have been read
#pragma unroll 1
    for (int i = lane(); i < queries * eighths; i += wave_width)
      bits()[i] = static_cast<std::uint8_t>(mask.kept(query + i % queries, key / 8 + i / queries));
    sync_wave();
  }
  // Returns whether to keep a score, by its row and column within the tile.
  GPU_FN bool at(int row, int column) const {
    const int query = keys_are_rows ? column : row, key = keys_are_rows ? row : column;
    return bits()[key / 8 * queries + query] >> key % 8 & 1;
  }

 private:
  struct Bits {
    std::uint8_t of_wave[threads / narrowest_wave][queries * eighths];
  };
  GPU_FN static std::uint8_t* bits() {
    return shared_memory<Bits>().of_wave[wave_index()];
  }
};

// --- results ---

// Where rows of results go: rows [begin, end) of those that waves have, row 0 at `to`.
template <class T>
struct ResultRows {
  T* to;
  std::int64_t pitch;
  int begin, end, head_dim;
  // Where the sums over 16 rows go, of rows [0, 16) first, with the same pitch; null: nowhere.
  float* sums = nullptr;

  GPU_FN bool in_packs() const {
    return reinterpret_cast<std::uintptr_t>(to) % 16 == 0 && pitch % pack_width<T> == 0 &&
           head_dim % pack_width<T> == 0;
  }
};

// Sums the columns of 16 rows, from `row` on, as they were rounded.
template <class T>
GPU_FN void sum_rows_of_tile(const ResultRows<T>& results, int row, const T* rows, int pitch) {
  if (row >= results.end) return;
  float* const to = results.sums + row / tile_size * results.pitch;
  for (int column = lane(); column < results.head_dim; column += wave_width) {
    float sum = 0;
#pragma unroll
    for (int r = 0; r < tile_size; ++r)
      if (row + r < results.end) sum += to_float(rows[r * pitch + column]);
    to[column] = sum;
  }
}

// Stores sums, times factors of their rows, from row `first` on. The wave's 16 rows of shared
// memory turn the lanes' layout into rows, which are written 16 bytes at a time where they can be.
template <int d, class T, int rows>
GPU_FN void store_sums(const ResultRows<T>& results, const SumTile (&sums)[rows][d / tile_size],
                       const float (&factors)[rows][TileMap::sum_rows], int first, T* scratch) {
  constexpr int pitch = tile_pitch<T>(d), row_packs = d / pack_width<T>;
  const bool in_packs = results.in_packs();
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    sync_wave();
#pragma unroll
    for (int j = 0; j < d / tile_size; ++j)
#pragma unroll
      for (int i = 0; i < TileMap::sums; i += TileMap::adjacent_sums) {
        const int slot = TileMap::row_slot(i);
        T* const to =
            scratch + sum_row(slot) * pitch + j * tile_size + sum_column(TileMap::column_slot(i));
        if constexpr (TileMap::adjacent_sums == 2) {
          *reinterpret_cast<Pack<T, 2>*>(to) = from_floats<T>(
              sums[r][j].v[i] * factors[r][slot], sums[r][j].v[i + 1] * factors[r][slot]);
        } else {
          *to = from_float<T>(sums[r][j].v[i] * factors[r][slot]);
        }
      }
    sync_wave();
#pragma unroll 1
    for (int i = lane(); i < tile_size * row_packs; i += wave_width) {
      const int row = first + r * tile_size + i / row_packs, column = i % row_packs * pack_width<T>;
      if (row < results.begin || row >= results.end || column >= results.head_dim) continue;
      const T* const from = scratch + i / row_packs * pitch + column;
      T* const to = results.to + row * results.pitch + column;
      if (in_packs) {
        store_pack(to, load_pack(from));
      } else {
        for (int e = 0; e < pack_width<T> && column + e < results.head_dim; ++e) to[e] = from[e];
      }
    }
    if (results.sums) sum_rows_of_tile(results, first + r * tile_size, scratch, pitch);
  }
}

}  // namespace trireme::gpu
