// The products of linear layers as one kernel: a block computes a tile of C = A B, whose operands
// come to shared memory piece by piece while the piece before is multiplied.
//
// Every element is summed over ascending k in steps of 16, whatever the tiles are: its bits depend
// on its row of A and its column of B alone.
#include "backend/gpu/product.h"

#include "backend/gpu/launch.h"
#include "backend/gpu/staged.h"
#include "base/divide.h"

namespace trireme::gpu {
namespace {

// The tile of C of a block, cut into `down` x `across` pieces of 32 columns or more for its waves.
template <int m, int n, int count>
struct BlockTile {
  static constexpr int rows = m, columns = n, threads = count;
};
using LargeTile = BlockTile<128, 128, 256>;
using SmallTile = BlockTile<64, 64, 128>;
using FlatTile = BlockTile<16, 64, 128>;  // few rows, as in generation

// How the waves of a block share its tile: as square as the widths allow.
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

// Elements of k that lie in shared memory at a time: 64 bytes of every row.
template <class T>
inline constexpr int k_piece = 64 / static_cast<int>(sizeof(T));

// A [m, k], or stored [k, m]; B [k, n], or stored [n, k].
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
  Matrix<T> a, b;  // as they are stored
  const T* bias;
  std::int64_t m, n, k;
  bool accumulate;
};

// Which tile a block computes: blocks that run at the same time lie near each other in both
// directions, so that they share what they read.
struct TilePlace {
  int row, column;
};
template <class Block>
GPU_FN TilePlace tile_of_block(std::int64_t m, std::int64_t n) {
  constexpr std::int64_t high = 8;
  const std::int64_t down = (m + Block::rows - 1) / Block::rows;
  const std::int64_t across = (n + Block::columns - 1) / Block::columns;
  const std::int64_t index = block_index().x, band = index / (high * across);
  const std::int64_t left = down - band * high, band_rows = left < high ? left : high;
  const std::int64_t within = index - band * high * across;
  return {static_cast<int>((band * high + within % band_rows) * Block::rows),
          static_cast<int>(within / band_rows * Block::columns)};
}

template <class T, class C, class Block, class Order>
class ProductBlock {
 public:
  GPU_FN explicit ProductBlock(const Operands<T, C>& operands)
      : p_(operands),
        at_(tile_of_block<Block>(operands.m, operands.n)),
        row_(wave_index() / Part::across * (Part::row_tiles * tile_size)),
        column_(wave_index() % Part::across * (Part::column_tiles * tile_size)) {}

  GPU_FN void run() {
    T* const shared = dynamic_shared_memory<T>();
    const auto pieces = static_cast<int>((p_.k + P::k - 1) / P::k);
    Copies copies;
#pragma unroll
    for (int piece = 0; piece < copy_stages - 1; ++piece) {
      load(copies, shared + piece * P::size, piece, pieces);
    }
    for (int piece = 0; piece < pieces; ++piece) {
      copies.wait_for_all_but<copy_stages - 2>();
      sync_block();  // the piece is there, and nobody reads the one before it any more
      const int next = piece + copy_stages - 1;
      load(copies, shared + next % copy_stages * P::size, next, pieces);
      multiply_piece(shared + piece % copy_stages * P::size);
    }
    store();
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

  GPU_FN void store() const {
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
          if (row < p_.m && column < p_.n) store_one(row, column, sums_[i][j].v[e]);
        }
  }
  GPU_FN void store_one(std::int64_t row, std::int64_t column, float sum) const {
    C& to = p_.c[row * p_.n + column];
    if (p_.bias) sum += to_float(p_.bias[column]);
    to = from_float<C>(p_.accumulate ? to_float(to) + sum : sum);
  }

  const Operands<T, C>& p_;
  const TilePlace at_;
  const int row_, column_;  // of this wave within the tile
  SumTile sums_[Part::row_tiles][Part::column_tiles] = {};
};

template <class T, class C, class Block, class Order>
GPU_KERNEL(Block::threads)
product_kernel(const Operands<T, C> operands) {
  ProductBlock<T, C, Block, Order>(operands).run();
}

template <class Block>
std::int64_t blocks_of(std::int64_t m, std::int64_t n) {
  return ceil_div(m, std::int64_t{Block::rows}) * ceil_div(n, std::int64_t{Block::columns});
}

template <class Order, class Block, class T, class C>
void launch_product(Queue& queue, const Operands<T, C>& operands) {
  launch(queue,
         {.blocks = Size{static_cast<unsigned>(blocks_of<Block>(operands.m, operands.n))},
          .threads = Block::threads,
          .shared_bytes = copy_stages * Piece<T, Block, Order>::size * sizeof(T)},
         product_kernel<T, C, Block, Order>, operands);
}

// Chosen by the sizes alone; no choice changes a result.
template <class Order, class T, class C>
void run_product(Queue& queue, const Operands<T, C>& p) {
  constexpr std::int64_t enough_blocks = 64;
  if (p.m <= FlatTile::rows) {
    launch_product<Order, FlatTile>(queue, p);
  } else if (blocks_of<LargeTile>(p.m, p.n) >= enough_blocks) {
    launch_product<Order, LargeTile>(queue, p);
  } else {
    launch_product<Order, SmallTile>(queue, p);
  }
}

template <class T>
Matrix<T> matrix(const void* data, std::int64_t rows, std::int64_t columns) {
  const T* const elements = static_cast<const T*>(data);
  return {elements, columns, rows, columns, lies_in_packs(elements, columns, columns)};
}

template <class T>
class OwnLinear final : public LinearProduct {
 public:
  OwnLinear(Product product, const LinearShape& shape) : product_(product), shape_(shape) {}

  void run(Queue& queue, void* dst, const void* a, const void* b, const void* bias, bool accumulate,
           void*) const override {
    const auto& [rows, in, out] = shape_;
    switch (product_) {
      case Product::forward:
        run_product<Stored<false, true>>(
            queue,
            Operands<T, T>{static_cast<T*>(dst), matrix<T>(a, rows, in), matrix<T>(b, out, in),
                           static_cast<const T*>(bias), rows, out, in, accumulate});
        break;
      case Product::input_grad:
        run_product<Stored<false, false>>(
            queue, Operands<T, T>{static_cast<T*>(dst), matrix<T>(a, rows, out),
                                  matrix<T>(b, out, in), nullptr, rows, in, out, accumulate});
        break;
      case Product::weight_grad:
        run_product<Stored<true, false>>(
            queue, Operands<T, float>{static_cast<float*>(dst), matrix<T>(a, rows, out),
                                      matrix<T>(b, rows, in), nullptr, out, in, rows, accumulate});
        break;
    }
  }

 private:
  Product product_;
  LinearShape shape_;
};

}  // namespace

std::shared_ptr<const LinearProduct> own_linear(DType compute, Product product,
                                                const LinearShape& shape) {
  switch (compute) {
    case DType::bf16:
      return std::make_shared<OwnLinear<bf16>>(product, shape);
    case DType::f16:
      return std::make_shared<OwnLinear<f16>>(product, shape);
    default:
      return std::make_shared<OwnLinear<float>>(product, shape);
  }
}

}  // namespace trireme::gpu
