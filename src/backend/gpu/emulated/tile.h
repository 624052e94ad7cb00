// tile.h on the emulated GPU: lanes publish their registers, and the last lane to
// arrive multiplies for all.
#pragma once

#include <cstring>

namespace trireme::gpu::detail {

template <class T>
LeftTile<T> load_left(const T* p, int pitch) {
  LeftTile<T> tile;
  const int l = lane();
  for (int i = 0; i < TileMap::operands; ++i)
    tile.v[i] = p[TileMap::left_row(l, i) * pitch + TileMap::left_step(l, i)];
  return tile;
}
template <class T>
LeftTile<T> load_left_transposed(const T* p, int pitch) {
  LeftTile<T> tile;
  const int l = lane();
  for (int i = 0; i < TileMap::operands; ++i)
    tile.v[i] = p[TileMap::left_step(l, i) * pitch + TileMap::left_row(l, i)];
  return tile;
}
template <class T>
RightTile<T> load_right(const T* p, int pitch) {
  RightTile<T> tile;
  const int l = lane();
  for (int i = 0; i < TileMap::operands; ++i)
    tile.v[i] = p[TileMap::right_step(l, i) * pitch + TileMap::right_column(l, i)];
  return tile;
}
template <class T>
RightTile<T> load_right_transposed(const T* p, int pitch) {
  RightTile<T> tile;
  const int l = lane();
  for (int i = 0; i < TileMap::operands; ++i)
    tile.v[i] = p[TileMap::right_column(l, i) * pitch + TileMap::right_step(l, i)];
  return tile;
}

// Location of a lane's registers, valid while the lane waits in the exchange.
template <class T>
struct LaneTiles {
  const LeftTile<T>* left;
  const RightTile<T>* right;
  SumTile* sums;
};

// gfx11 lanes repeat operands; the copies must be equal.
inline constexpr bool lanes_repeat = std::is_same_v<TileMap, WmmaMap>;

// A row of a tile, as a vector: the emulation is compiled at a level that makes none of loops.
using TileRow __attribute__((vector_size(tile_size * sizeof(float)))) = float;

template <class T>
struct WholeTile {
  TileRow v[tile_size];
  bool written[lanes_repeat ? tile_size : 1][tile_size] = {};

  void put(int row, int column, T value) {
    const float x = to_float(value);
    if constexpr (lanes_repeat) {
      bool& was_written = written[row][column];
      const float before = v[row][column];
      if (was_written && std::bit_cast<std::uint32_t>(before) != std::bit_cast<std::uint32_t>(x))
        emulated::stop("lanes that hold the same element of a tile differ");
      was_written = true;
    }
    v[row][column] = x;
  }
};

template <class T, int lefts, int rights, bool swapped>
void multiply_for_all(emulated::Exchange all) {
  const auto of_lane = [&](int l) {
    LaneTiles<T> tiles;
    std::memcpy(&tiles, all.slots + l * emulated::Wave::slot_bytes, sizeof tiles);
    return tiles;
  };
  WholeTile<T> left[lefts], right[rights];
  for (int l = 0; l < wave_width; ++l) {
    const LaneTiles<T> mine = of_lane(l);
    for (int e = 0; e < TileMap::operands; ++e) {
      for (int i = 0; i < lefts; ++i)
        left[i].put(TileMap::left_row(l, e), TileMap::left_step(l, e), mine.left[i].v[e]);
      for (int j = 0; j < rights; ++j)
        right[j].put(TileMap::right_step(l, e), TileMap::right_column(l, e), mine.right[j].v[e]);
    }
  }
  for (int i = 0; i < lefts; ++i)
    for (int j = 0; j < rights; ++j) {
      TileRow products[tile_size] = {};
      for (int row = 0; row < tile_size; ++row)
        for (int step = 0; step < tile_size; ++step)
          products[row] += left[i].v[row][step] * right[j].v[step];
      for (int l = 0; l < wave_width; ++l) {
        SumTile& sums = of_lane(l).sums[swapped ? j * lefts + i : i * rights + j];
        for (int e = 0; e < TileMap::sums; ++e)
          sums.v[e] += products[TileMap::sum_row(l, TileMap::row_slot(e))]
                               [TileMap::sum_column(l, TileMap::column_slot(e))];
      }
    }
}

template <bool swapped, class T, int lefts, int rights, class Sums>
void multiply(Sums& sums, const LeftTile<T> (&left)[lefts], const RightTile<T> (&right)[rights],
              emulated::Place place = emulated::Place::current()) {
  const LaneTiles<T> mine{left, right, &sums[0][0]};
  emulated::exchange(&mine, sizeof mine, place, multiply_for_all<T, lefts, rights, swapped>);
}

}  // namespace trireme::gpu::detail
