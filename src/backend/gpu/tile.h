// Wave-level matrix products on 16 x 16 tiles with 16 summed elements (steps), accumulated in
// float. 16-bit operands are in registers in the matrix unit's layout (tile_maps.h); float operands
// stay in shared memory, for plain arithmetic. The interface is the same for all vendors.
//
// The summation order is fixed: ascending steps within a tile, in the unit's order, and tiles in
// call order. Each element therefore depends only on its own row and column.
#pragma once

#include <type_traits>

#include "backend/gpu/language.h"
#include "backend/gpu/tile_maps.h"

namespace trireme::gpu {

#if TRIREME_CUDA
using TileMap = MmaMap;
#elif TRIREME_HIP && defined(__HIP_DEVICE_COMPILE__) && !defined(__GFX9__)
using TileMap = WmmaMap;
#elif TRIREME_HIP
using TileMap = MfmaMap;
#elif TRIREME_EMULATED_WMMA
using TileMap = WmmaMap;
#else
using TileMap = std::conditional_t<wave_width == 64, MfmaMap, MmaMap>;
#endif

// The kinds of matrix units, and the one that this pass of the compiler is for. The host's pass for
// AMD's GPUs does not know it.
enum class Unit : std::uint8_t { mma, mfma, wmma };
inline constexpr Unit compiled_unit = std::is_same_v<TileMap, MmaMap>    ? Unit::mma
                                      : std::is_same_v<TileMap, MfmaMap> ? Unit::mfma
                                                                         : Unit::wmma;
#if TRIREME_HIP
namespace runtime {
int wave_width_of_device();
}
#endif
// On the host: calls body.operator()<unit>() with that of the selected device.
template <class Body>
auto with_unit_of_device(const Body& body) {
#if TRIREME_HIP
  if (runtime::wave_width_of_device() == 32) return body.template operator()<Unit::wmma>();
#endif
  return body.template operator()<compiled_unit>();
}

inline constexpr int tile_size = 16;

// Row pitch of operands in shared memory: rows are 16-byte aligned, and neighboring
// rows lie in different banks.
template <class T>
constexpr int tile_pitch(int columns) {
  return columns + pack_width<T>;
}

template <class T>
struct alignas(4 * sizeof(T)) LeftTile {
  T v[TileMap::operands];
};
template <class T>
struct alignas(4 * sizeof(T)) RightTile {
  T v[TileMap::operands];
};
template <>
struct LeftTile<float> {
  const float* at;
  int row, step;  // strides in elements
};
template <>
struct RightTile<float> {
  const float* at;
  int step, column;
};
// A lane's accumulators: register i has row slot row_slot(i) and column slot column_slot(i).
struct SumTile {
  float v[TileMap::sums];
};

// Row and column of a lane's accumulators, by slot.
GPU_FN int sum_row(int slot) {
  return TileMap::sum_row(lane(), slot);
}
GPU_FN int sum_column(int slot) {
  return TileMap::sum_column(lane(), slot);
}

}  // namespace trireme::gpu

// Provides for 16-bit types: load_left, load_left_transposed, load_right,
// load_right_transposed, multiply.
#if TRIREME_EMULATED
#include "backend/gpu/emulated/tile.h"
#else
#include "backend/gpu/vendor/tile.h"
#endif

namespace trireme::gpu {

// --- loads of operands from shared memory ---

// Source layout [rows, steps], `pitch` elements from row to row.
template <class T>
GPU_FN LeftTile<T> load_left(const T* p, int pitch) {
  if constexpr (std::is_same_v<T, float>) {
    return {p, pitch, 1};
  } else {
    return detail::load_left(p, pitch);
  }
}
// Source layout [steps, rows].
template <class T>
GPU_FN LeftTile<T> load_left_transposed(const T* p, int pitch) {
  if constexpr (std::is_same_v<T, float>) {
    return {p, 1, pitch};
  } else {
    return detail::load_left_transposed(p, pitch);
  }
}
// Source layout [steps, columns].
template <class T>
GPU_FN RightTile<T> load_right(const T* p, int pitch) {
  if constexpr (std::is_same_v<T, float>) {
    return {p, pitch, 1};
  } else {
    return detail::load_right(p, pitch);
  }
}
// Source layout [columns, steps].
template <class T>
GPU_FN RightTile<T> load_right_transposed(const T* p, int pitch) {
  if constexpr (std::is_same_v<T, float>) {
    return {p, 1, pitch};
  } else {
    return detail::load_right_transposed(p, pitch);
  }
}

// --- products ---

// sums[i][j] += left[i] right[j]; sums[j][i] if `swapped`.
template <bool swapped = false, class T, int lefts, int rights>
GPU_FN void multiply(SumTile (&sums)[swapped ? rights : lefts][swapped ? lefts : rights],
                     const LeftTile<T> (&left)[lefts], const RightTile<T> (&right)[rights]) {
  if constexpr (!std::is_same_v<T, float>) {
    detail::multiply<swapped>(sums, left, right);
  } else {
    constexpr int rows = TileMap::sum_rows, columns = TileMap::sum_columns;
    const int row = TileMap::sum_row(lane(), 0), column = TileMap::sum_column(lane(), 0);
#pragma unroll 2
    for (int step = 0; step < tile_size; ++step) {
      float x[lefts][rows], y[rights][columns];
#pragma unroll
      for (int i = 0; i < lefts; ++i)
#pragma unroll
        for (int r = 0; r < rows; ++r)
          x[i][r] = left[i].at[(row + TileMap::sum_row(0, r)) * left[i].row + step * left[i].step];
#pragma unroll
      for (int j = 0; j < rights; ++j)
#pragma unroll
        for (int c = 0; c < columns; ++c)
          y[j][c] = right[j].at[(column + TileMap::sum_column(0, c)) * right[j].column +
                                step * right[j].step];
#pragma unroll
      for (int i = 0; i < lefts; ++i)
#pragma unroll
        for (int j = 0; j < rights; ++j)
#pragma unroll
          for (int e = 0; e < TileMap::sums; ++e)
            (swapped ? sums[j][i] : sums[i][j]).v[e] +=
                x[i][TileMap::row_slot(e)] * y[j][TileMap::column_slot(e)];
    }
  }
}

}  // namespace trireme::gpu
