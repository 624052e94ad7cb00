// Block-tiled matrix product: each block computes a tile of C = A B. Pieces of the operands are
// copied to shared memory while the previous piece is multiplied.
//
// Each element is summed over ascending k in steps of 16 for every tile size, so its bits depend
// only on its row of A and its column of B.
#pragma once

#include "backend/gpu/staged.h"
#include "base/divide.h"

namespace trireme::gpu {

// A block's tile of C, split among its waves into `down` x `across` parts of >= 32 columns.
template <int m, int n, int count>
struct BlockTile {
  static constexpr int rows = m, columns = n, threads = count;
};
using LargeTile = BlockTile<128, 128, 256>;
using SmallTile = BlockTile<64, 64, 128>;
using FlatTile = BlockTile<16, 64, 128>;  // few rows, as in generation

// Split of a block's tile among its waves: as square as the widths allow.
template <class Block>
struct WavePart {
  static constexpr int waves = Block::threads / wave_width;
  static constexpr int down = Block::rows >= 2 * tile_size && waves >= 4 ? 2 : 1;
  static constexpr int across = waves / down;
  static constexpr int row_tiles = Block::rows / down / tile_size;
  static constexpr int column_tiles = Block::columns / across / tile_size;
  static_assert(row_tiles * down * tile_size == Block::rows);
  static_assert(column_tiles * across * tile_size == Block::columns);
};

// Elements of k per piece in shared memory: 64 bytes of every row.
template <class T>
inline constexpr int k_piece = 64 / static_cast<int>(sizeof(T));

// Storage order of the operands: A [m, k], or stored [k, m]; B [k, n], or stored [n, k].
template <bool a, bool b>
struct Stored {
  static constexpr bool a_transposed = a, b_transposed = b;
};

template <class T, class Block, class Order>
struct Piece {
  static constexpr int k = k_piece<T>;
  static constexpr int a_rows = Order::a_transposed ? k : Block::rows;
  static constexpr int a_columns = Order::a_transposed ? Block::rows : k;
  static constexpr int b_rows = Order::b_transposed ? Block::columns : k;
  static constexpr int b_columns = Order::b_transposed ? k : Block::columns;
  static constexpr int a_size = a_rows * tile_pitch<T>(a_columns);
  static constexpr int size = a_size + b_rows * tile_pitch<T>(b_columns);  // in elements
};

template <class T, class C>
struct Operands {
  C* c;
  Matrix<T> a, b;  // in storage order
  const T* bias;
  std::int64_t m, n, k;
  const C* addend;  // of the product, [m, n], and may be c; null: none
};

// Upper left corner of a block's tile.
struct TilePlace {
  int row, column;
};

// Swizzled order of the tiles of an m x n matrix: consecutive indices, whose blocks run
// concurrently, are close in both directions and so share the data they read.
template <class Block>
GPU_FN TilePlace tile_of_block(std::int64_t m, std::int64_t n, std::int64_t index) {
  constexpr std::int64_t high = 8;
  const std::int64_t down = (m + Block::rows - 1) / Block::rows;
  const std::int64_t across = (n + Block::columns - 1) / Block::columns;
  const std::int64_t band = index / (high * across);
  const std::int64_t left = down - band * high, band_rows = left < high ? left : high;
  const std::int64_t within = index - band * high * across;
  return {static_cast<int>((band * high + within % band_rows) * Block::rows),
          static_cast<int>(within / band_rows * Block::columns)};
}

template <class T, class C, class Block, class Order>
class ProductBlock {
 public:
  GPU_FN ProductBlock(const Operands<T, C>& operands, const TilePlace& at)
      : p_(operands),
        at_(at),
        row_(wave_index() / Part::across * (Part::row_tiles * tile_size)),
        column_(wave_index() % Part::across * (Part::column_tiles * tile_size)) {}

  // Computes the tile; stores only rows below `rows` and columns below `columns`.
  GPU_FN void run(std::int64_t rows, std::int64_t columns) {
    T* const shared = dynamic_shared_memory<T>();
    const auto pieces = static_cast<int>((p_.k + P::k - 1) / P::k);
    Copies copies;
#pragma unroll
    for (int piece = 0; piece < copy_stages - 1; ++piece) {
      load(copies, shared + piece * P::size, piece, pieces);
    }
    for (int piece = 0; piece < pieces; ++piece) {
      copies.wait_for_all_but<copy_stages - 2>();
      sync_block();  // the piece has arrived, and the previous one is no longer read
      const int next = piece + copy_stages - 1;
      load(copies, shared + next % copy_stages * P::size, next, pieces);
      multiply_piece(shared + piece % copy_stages * P::size);
    }
    store(rows, columns);
  }

 private:
  using Part = WavePart<Block>;
  using P = Piece<T, Block, Order>;

  GPU_FN void load(Copies& copies, T* to, int piece, int pieces) {
    if (piece < pieces) {
      const std::int64_t k = std::int64_t{piece} * P::k;
      stage<P::a_rows, P::a_columns, Block::threads>(
          copies, to, Order::a_transposed ? p_.a.from(k, at_.row) : p_.a.from(at_.row, k));
      stage<P::b_rows, P::b_columns, Block::threads>(
          copies, to + P::a_size,
          Order::b_transposed ? p_.b.from(at_.column, k) : p_.b.from(k, at_.column));
    }
    copies.commit();
  }

  GPU_FN void multiply_piece(const T* a) {
    constexpr int a_pitch = tile_pitch<T>(P::a_columns), b_pitch = tile_pitch<T>(P::b_columns);
    const T* const b = a + P::a_size;
#pragma unroll
    for (int k = 0; k < P::k; k += tile_size) {
      LeftTile<T> left[Part::row_tiles];
      RightTile<T> right[Part::column_tiles];
#pragma unroll
      for (int i = 0; i < Part::row_tiles; ++i) {
        const int row = row_ + i * tile_size;
        if constexpr (Order::a_transposed) {
          left[i] = load_left_transposed(a + k * a_pitch + row, a_pitch);
        } else {
          left[i] = load_left(a + row * a_pitch + k, a_pitch);
        }
      }
#pragma unroll
      for (int j = 0; j < Part::column_tiles; ++j) {
        const int column = column_ + j * tile_size;
        if constexpr (Order::b_transposed) {
          right[j] = load_right_transposed(b + column * b_pitch + k, b_pitch);
        } else {
          right[j] = load_right(b + k * b_pitch + column, b_pitch);
        }
      }
      multiply(sums_, left, right);
    }
  }

  GPU_FN void store(std::int64_t rows, std::int64_t columns) const {
#pragma unroll
    for (int i = 0; i < Part::row_tiles; ++i)
#pragma unroll
      for (int j = 0; j < Part::column_tiles; ++j)
#pragma unroll
        for (int e = 0; e < TileMap::sums; ++e) {
          const std::int64_t row =
              std::int64_t{at_.row} + row_ + i * tile_size + sum_row(TileMap::row_slot(e));
          const std::int64_t column =
              at_.column + column_ + j * tile_size + sum_column(TileMap::column_slot(e));
          if (row < rows && column < columns) store_one(row, column, sums_[i][j].v[e]);
        }
  }
  GPU_FN void store_one(std::int64_t row, std::int64_t column, float sum) const {
    const std::int64_t at = row * p_.n + column;
    if (p_.bias) sum += to_float(p_.bias[column]);
    p_.c[at] = from_float<C>(p_.addend ? to_float(p_.addend[at]) + sum : sum);
  }

  const Operands<T, C>& p_;
  const TilePlace at_;
  const int row_, column_;  // of this wave, within the tile
  SumTile sums_[Part::row_tiles][Part::column_tiles] = {};
};

// Number of tiles of an m x n matrix.
template <class Block>
std::int64_t blocks_of(std::int64_t m, std::int64_t n) {
  return ceil_div(m, std::int64_t{Block::rows}) * ceil_div(n, std::int64_t{Block::columns});
}

// Shared memory per block for the pieces of both operands.
template <class T, class Block, class Order>
inline constexpr std::size_t product_shared_bytes = copy_stages* Piece<T, Block, Order>::size *
                                                    sizeof(T);

}  // namespace trireme::gpu
