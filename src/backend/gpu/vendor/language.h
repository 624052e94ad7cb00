// The words of language.h as nvcc and HIP's clang know them.
#pragma once

#if defined(__HIP__)
#include <hip/hip_runtime.h>
#endif

#define GPU_FN __device__ __forceinline__
// The second argument of launch bounds means different things to the two.
#define GPU_KERNEL(threads) __global__ __launch_bounds__(threads) void

namespace trireme::gpu {

#if defined(__HIP__) && defined(__HIP_DEVICE_COMPILE__) && !defined(__GFX9__)
inline constexpr int wave_width = 32;  // RDNA
#elif defined(__HIP__)
inline constexpr int wave_width = 64;  // CDNA; the host's pass sees it too and must not ask
#else
inline constexpr int wave_width = 32;
#endif

using Size = dim3;

GPU_FN unsigned thread_index() {
  return threadIdx.x;
}
GPU_FN unsigned block_size() {
  return blockDim.x;
}
GPU_FN uint3 block_index() {
  return {blockIdx.x, blockIdx.y, blockIdx.z};
}
GPU_FN uint3 grid_size() {
  return {gridDim.x, gridDim.y, gridDim.z};
}

GPU_FN void sync_block() {
  __syncthreads();
}
GPU_FN void sync_wave() {
#if defined(__HIP__)
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
#else
  __syncwarp();
#endif
}

// The value of another lane. All lanes of the wave take part.
template <class V>
GPU_FN V shuffle_xor(V v, int mask) {
#if defined(__HIP__)
  return __shfl_xor(v, mask, wave_width);
#else
  return __shfl_xor_sync(0xffffffffu, v, mask, wave_width);
#endif
}
template <class V>
GPU_FN V shuffle(V v, int from) {
#if defined(__HIP__)
  return __shfl(v, from, wave_width);
#else
  return __shfl_sync(0xffffffffu, v, from, wave_width);
#endif
}

// Shared memory of the block, one piece for each type that is asked for. Holds nothing at first.
template <class T>
GPU_FN T& shared_memory() {
  __shared__ T memory;
  return memory;
}
// What the launch asked for, aligned to 16 bytes.
template <class T>
GPU_FN T* dynamic_shared_memory() {
  extern __shared__ __align__(16) unsigned char trireme_dynamic_shared[];
  return reinterpret_cast<T*>(trireme_dynamic_shared);
}

// The hardware stops at an unaligned access by itself.
GPU_FN void check_aligned(const void*, std::uintptr_t) {}

// Integer sums alone: they do not depend on their order.
GPU_FN void atomic_add(std::int64_t* to, std::int64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}
GPU_FN void atomic_min(std::int64_t* to, std::int64_t value) {
  atomicMin(reinterpret_cast<long long*>(to), static_cast<long long>(value));
}

GPU_FN float exp(float x) {
  return expf(x);
}
GPU_FN float log(float x) {
  return logf(x);
}
GPU_FN float sqrt(float x) {
  return sqrtf(x);
}
GPU_FN float tanh(float x) {
  return tanhf(x);
}
GPU_FN float erf(float x) {
  return erff(x);
}
GPU_FN bool is_finite(float x) {
  return isfinite(x);
}

}  // namespace trireme::gpu
