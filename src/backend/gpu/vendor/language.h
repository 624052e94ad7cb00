// The kernel language (language.h) for nvcc and HIP's clang.
#pragma once

#include <bit>
#include <cstdint>

#include "backend/gpu/which.h"
#include "base/dtype.h"

#if TRIREME_HIP
#include <hip/hip_runtime.h>
#endif

#define GPU_FN __device__ __forceinline__
// The second argument of __launch_bounds__ has different meanings in CUDA and HIP. In HIP it is a
// number of waves per SIMD: two hide each other's latencies, and have 256 registers each.
#if TRIREME_HIP
#define GPU_KERNEL(threads) __global__ __launch_bounds__(threads, 2) void
#else
#define GPU_KERNEL(threads) __global__ __launch_bounds__(threads) void
#endif

namespace trireme::gpu {

#if defined(__HIP__) && defined(__HIP_DEVICE_COMPILE__) && !defined(__GFX9__)
inline constexpr int wave_width = 32;  // RDNA
#elif defined(__HIP__)
inline constexpr int wave_width = 64;  // CDNA; the host pass sees this too and must not use it
#else
inline constexpr int wave_width = 32;
#endif

// Returns x, opaque to the optimizer, so that addresses derived from it are computed where they are
// used. Otherwise compilers hoist dozens of loop-invariant addresses into registers, one each,
// until accumulators spill.
GPU_FN int recomputed(int x) {
#if defined(__HIP_DEVICE_COMPILE__)
  asm volatile("" : "+v"(x));
#elif defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(x));
#endif
  return x;
}

template <class T>
GPU_FN const T* recomputed(const T* x) {
#if defined(__HIP_DEVICE_COMPILE__)
  asm volatile("" : "+v"(x));
#elif defined(__CUDA_ARCH__)
  asm volatile("" : "+l"(x));
#endif
  return x;
}

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
#if TRIREME_HIP
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
#else
  __syncwarp();
#endif
}

// Returns another lane's value. All lanes of the wave participate.
template <class V>
GPU_FN V shuffle_xor(V v, int mask) {
#if TRIREME_HIP
  return __shfl_xor(v, mask, wave_width);
#else
  return __shfl_xor_sync(0xffffffffu, v, mask, wave_width);
#endif
}
template <class V>
GPU_FN V shuffle(V v, int from) {
#if TRIREME_HIP
  return __shfl(v, from, wave_width);
#else
  return __shfl_sync(0xffffffffu, v, from, wave_width);
#endif
}

// Shared memory of the block, one object per type. Initially uninitialized.
template <class T>
GPU_FN T& shared_memory() {
  __shared__ T memory;
  return memory;
}
// Dynamic shared memory of the launch, aligned to 16 bytes.
template <class T>
GPU_FN T* dynamic_shared_memory() {
  extern __shared__ __align__(16) unsigned char trireme_dynamic_shared[];
  return reinterpret_cast<T*>(trireme_dynamic_shared);
}

// No-op: the hardware traps unaligned accesses.
GPU_FN void check_aligned(const void*, std::uintptr_t) {}

// For integers only: their sum does not depend on the order.
GPU_FN void atomic_add(std::int64_t* to, std::int64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}
GPU_FN void atomic_add(std::int32_t* to, std::int32_t value) {
  atomicAdd(to, value);
}
GPU_FN void atomic_min(std::uint64_t* to, std::uint64_t value) {
  atomicMin(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}
GPU_FN void atomic_max(std::uint32_t* to, std::uint32_t value) {
  atomicMax(to, value);
}

// Conversions by hardware instructions where available.
GPU_FN float half_to_float(f16 x) {
#if TRIREME_HIP
  return static_cast<float>(std::bit_cast<_Float16>(x.bits));
#else
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
#endif
}
GPU_FN f16 float_to_half(float x) {
  f16 result;
#if TRIREME_HIP
  result.bits = std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
#else
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
#endif
  return result;
}
GPU_FN bf16 float_to_bf16(float x) {
#if TRIREME_HIP
  return bf16(x);
#else
  bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
#endif
}

namespace detail {
// Both in one register, the first in the lower half.
template <class T>
GPU_FN std::uint32_t round_pair(float first, float second) {
#if TRIREME_HIP
  const std::uint32_t low =
      std::is_same_v<T, bf16> ? float_to_bf16(first).bits : float_to_half(first).bits;
  const std::uint32_t high =
      std::is_same_v<T, bf16> ? float_to_bf16(second).bits : float_to_half(second).bits;
  return low | high << 16;
#else
  std::uint32_t result;
  if constexpr (std::is_same_v<T, bf16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(second), "f"(first));
  }
  return result;
#endif
}
}  // namespace detail

GPU_FN float exp(float x) {
  return expf(x);
}
GPU_FN float log(float x) {
  return logf(x);
}
GPU_FN float exp2(float x) {
  return exp2f(x);
}
// 2^x in one instruction; results below 2^-126 may be zero.
GPU_FN float exp2_flushed(float x) {
#if TRIREME_HIP
  return __builtin_amdgcn_exp2f(x);
#else
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}
GPU_FN float log2(float x) {
  return log2f(x);
}
GPU_FN float sqrt(float x) {
  return sqrtf(x);
}
GPU_FN double sqrt(double x) {
  return ::sqrt(x);
}
GPU_FN double round_to_even(double x) {
  return rint(x);
}
// 1 / x, correct to within one unit in the last place.
GPU_FN float reciprocal(float x) {
#if TRIREME_HIP
  return __builtin_amdgcn_rcpf(x);
#else
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}
GPU_FN float tanh(float x) {
  return tanhf(x);
}
GPU_FN float erfc(float x) {
  return erfcf(x);
}
GPU_FN bool is_finite(float x) {
  return isfinite(x);
}

}  // namespace trireme::gpu
