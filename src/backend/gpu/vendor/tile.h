// tile.h on the matrix units of NVIDIA and AMD GPUs.
#pragma once

#include <bit>

namespace trireme::gpu::detail {

#if TRIREME_CUDA

// ldmatrix: loads four 8 x 8 matrices; lanes 0 to 7 give the first one's 16-byte rows, and so on.
template <bool transposed, class Tile, class T>
GPU_FN Tile load_matrices(const T* row) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(row));
  unsigned a, b, c, d;
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(at));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                 : "r"(at));
  }
  struct Four {
    unsigned v[4];
  };
  return std::bit_cast<Tile>(Four{a, b, c, d});
}

// Row (or step) of this lane within 16 when matrices 1 and 3 are below 0 and 2 ...
GPU_FN int down() {
  return lane() % 8 + 8 * (lane() / 8 % 2);
}
GPU_FN int right_of_down() {
  return 8 * (lane() / 16);
}
// ... or to the right.
GPU_FN int down_late() {
  return lane() % 8 + 8 * (lane() / 16);
}
GPU_FN int right_early() {
  return 8 * (lane() / 8 % 2);
}

template <class T>
GPU_FN LeftTile<T> load_left(const T* p, int pitch) {
  return load_matrices<false, LeftTile<T>>(p + down() * pitch + right_of_down());
}
template <class T>
GPU_FN LeftTile<T> load_left_transposed(const T* p, int pitch) {
  return load_matrices<true, LeftTile<T>>(p + down_late() * pitch + right_early());
}
template <class T>
GPU_FN RightTile<T> load_right(const T* p, int pitch) {
  return load_matrices<true, RightTile<T>>(p + down() * pitch + right_of_down());
}
template <class T>
GPU_FN RightTile<T> load_right_transposed(const T* p, int pitch) {
  return load_matrices<false, RightTile<T>>(p + down_late() * pitch + right_early());
}

template <class T>
GPU_FN void multiply_one(SumTile& c, const LeftTile<T>& left, const RightTile<T>& right) {
  struct Four {
    unsigned v[4];
  };
  const Four a = std::bit_cast<Four>(left), b = std::bit_cast<Four>(right);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float* const s = c.v + 4 * half;
    if constexpr (std::is_same_v<T, bf16>) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
          "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
          : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
          : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b.v[2 * half]),
            "r"(b.v[2 * half + 1]));
    } else {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
          : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
          : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b.v[2 * half]),
            "r"(b.v[2 * half + 1]));
    }
  }
}

#else  // HIP: no instruction loads operands, each lane picks its own

template <class T>
GPU_FN LeftTile<T> load_left(const T* p, int pitch) {
  LeftTile<T> tile;
#pragma unroll
  for (int i = 0; i < TileMap::operands; ++i)
    tile.v[i] = p[TileMap::left_row(lane(), i) * pitch + TileMap::left_step(lane(), i)];
  return tile;
}
template <class T>
GPU_FN LeftTile<T> load_left_transposed(const T* p, int pitch) {
  LeftTile<T> tile;
#pragma unroll
  for (int i = 0; i < TileMap::operands; ++i)
    tile.v[i] = p[TileMap::left_step(lane(), i) * pitch + TileMap::left_row(lane(), i)];
  return tile;
}
template <class T>
GPU_FN RightTile<T> load_right(const T* p, int pitch) {
  RightTile<T> tile;
#pragma unroll
  for (int i = 0; i < TileMap::operands; ++i)
    tile.v[i] = p[TileMap::right_step(lane(), i) * pitch + TileMap::right_column(lane(), i)];
  return tile;
}
template <class T>
GPU_FN RightTile<T> load_right_transposed(const T* p, int pitch) {
  RightTile<T> tile;
#pragma unroll
  for (int i = 0; i < TileMap::operands; ++i)
    tile.v[i] = p[TileMap::right_column(lane(), i) * pitch + TileMap::right_step(lane(), i)];
  return tile;
}

template <class T>
GPU_FN void multiply_one([[maybe_unused]] SumTile& c, [[maybe_unused]] const LeftTile<T>& left,
                         [[maybe_unused]] const RightTile<T>& right) {
#if defined(__HIP_DEVICE_COMPILE__) && defined(__GFX9__)
  using Floats = float __attribute__((ext_vector_type(4)));
  const Floats sums = std::bit_cast<Floats>(c);
  if constexpr (std::is_same_v<T, bf16>) {
    using Operands = short __attribute__((ext_vector_type(4)));
    c = std::bit_cast<SumTile>(__builtin_amdgcn_mfma_f32_16x16x16bf16_1k(
        std::bit_cast<Operands>(left), std::bit_cast<Operands>(right), sums, 0, 0, 0));
  } else {
    using Operands = _Float16 __attribute__((ext_vector_type(4)));
    c = std::bit_cast<SumTile>(__builtin_amdgcn_mfma_f32_16x16x16f16(
        std::bit_cast<Operands>(left), std::bit_cast<Operands>(right), sums, 0, 0, 0));
  }
#elif defined(__HIP_DEVICE_COMPILE__)
  using Floats = float __attribute__((ext_vector_type(8)));
  const Floats sums = std::bit_cast<Floats>(c);
  if constexpr (std::is_same_v<T, bf16>) {
    using Operands = short __attribute__((ext_vector_type(16)));
    c = std::bit_cast<SumTile>(__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(
        std::bit_cast<Operands>(left), std::bit_cast<Operands>(right), sums));
  } else {
    using Operands = _Float16 __attribute__((ext_vector_type(16)));
    c = std::bit_cast<SumTile>(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32(
        std::bit_cast<Operands>(left), std::bit_cast<Operands>(right), sums));
  }
#endif
}

#endif

template <bool swapped, class T, int lefts, int rights, class Sums>
GPU_FN void multiply(Sums& sums, const LeftTile<T> (&left)[lefts],
                     const RightTile<T> (&right)[rights]) {
#pragma unroll
  for (int i = 0; i < lefts; ++i)
#pragma unroll
    for (int j = 0; j < rights; ++j)
      multiply_one(swapped ? sums[j][i] : sums[i][j], left[i], right[j]);
}

}  // namespace trireme::gpu::detail
