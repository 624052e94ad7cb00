// The kernel language: one source for CUDA, HIP and the emulated GPU. Among the kernels' files,
// only this one and tile.h depend on which of them is compiled.
//
// A kernel is a function GPU_KERNEL(threads) name(...), run by blocks of `threads` threads, a
// multiple of 64. Functions called by kernels are GPU_FN. The wave (warp) width, 32 or 64 lanes, is
// known in kernels only: no size computed on the host depends on it, but for the dynamic shared
// memory of attention (with_unit_of_device() in tile.h).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/gpu/which.h"
#include "base/dtype.h"

#if TRIREME_EMULATED
#include "backend/gpu/emulated/language.h"
#else
#include "backend/gpu/vendor/language.h"
#endif

namespace trireme::gpu {

// Bounds for host code: block sizes are multiples of the widest wave, and shared memory with one
// value per wave is sized for the narrowest.
inline constexpr int narrowest_wave = 32, widest_wave = 64;

GPU_FN int lane() {
  return static_cast<int>(thread_index()) % wave_width;
}
GPU_FN int wave_index() {
  return static_cast<int>(thread_index()) / wave_width;
}

// --- storage types ---

// Converts to the type of arithmetic.
GPU_FN float to_float(float x) {
  return x;
}
GPU_FN float to_float(bf16 x) {
  return static_cast<float>(x);
}
GPU_FN float to_float(f16 x) {
  return half_to_float(x);
}
// Rounds to nearest, ties to even.
template <class T>
GPU_FN T from_float(float x) {
  if constexpr (std::is_same_v<T, bf16>)
    return float_to_bf16(x);
  else if constexpr (std::is_same_v<T, f16>)
    return float_to_half(x);
  else
    return x;
}

// Neighboring elements that are loaded and stored together (vectorized access).
template <class T, int n>
struct alignas(sizeof(T) * n) Pack {
  T v[n];
};
template <class T>
inline constexpr int pack_width = 16 / static_cast<int>(sizeof(T));
// Rounds two floats to the 16-bit type T, at once where the hardware can.
template <class T>
GPU_FN Pack<T, 2> from_floats(float first, float second) {
  return std::bit_cast<Pack<T, 2>>(detail::round_pair<T>(first, second));
}
// Loads 16 bytes; p must be aligned to 16 bytes.
template <class T>
GPU_FN Pack<T, pack_width<T>> load_pack(const T* p) {
  check_aligned(p, 16);
  return *reinterpret_cast<const Pack<T, pack_width<T>>*>(p);
}
template <class T>
GPU_FN void store_pack(T* p, const Pack<T, pack_width<T>>& pack) {
  check_aligned(p, 16);
  *reinterpret_cast<Pack<T, pack_width<T>>*>(p) = pack;
}

// --- reductions ---
// All lanes or threads get the result. The summation order depends on the sizes only.

template <class V>
GPU_FN V wave_sum(V v) {
#pragma unroll
  for (int mask = wave_width / 2; mask > 0; mask >>= 1) v += shuffle_xor(v, mask);
  return v;
}
template <class V>
GPU_FN V wave_max(V v) {
#pragma unroll
  for (int mask = wave_width / 2; mask > 0; mask >>= 1) {
    const V other = shuffle_xor(v, mask);
    v = other > v ? other : v;
  }
  return v;
}

namespace detail {
template <class V, int threads>
struct WaveParts {
  V part[threads / narrowest_wave];
};
}  // namespace detail

// All `threads` threads of the block must call this.
template <int threads, class V>
GPU_FN V block_sum(V v) {
  auto& shared = shared_memory<detail::WaveParts<V, threads>>();
  v = wave_sum(v);
  if (lane() == 0) shared.part[wave_index()] = v;
  sync_block();
  V total = 0;
  for (int i = 0; i < threads / wave_width; ++i) total += shared.part[i];
  sync_block();  // the next reduction reuses the memory
  return total;
}
template <int threads, class V>
GPU_FN V block_max(V v) {
  auto& shared = shared_memory<detail::WaveParts<V, threads>>();
  v = wave_max(v);
  if (lane() == 0) shared.part[wave_index()] = v;
  sync_block();
  V largest = shared.part[0];
  for (int i = 1; i < threads / wave_width; ++i)
    largest = shared.part[i] > largest ? shared.part[i] : largest;
  sync_block();
  return largest;
}

// Grid-stride loop: calls body(i) for each i in [0, count) assigned to this thread.
template <class Body>
GPU_FN void for_each(std::int64_t count, const Body& body) {
  const std::int64_t step = static_cast<std::int64_t>(grid_size().x) * block_size();
  for (std::int64_t i = static_cast<std::int64_t>(block_index().x) * block_size() + thread_index();
       i < count; i += step)
    body(i);
}

}  // namespace trireme::gpu
