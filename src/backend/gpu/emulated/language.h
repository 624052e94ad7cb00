// The kernel language (language.h) on the emulated GPU.
#pragma once

#include <atomic>
#include <cmath>
#include <cstring>

#include "backend/gpu/emulated/block.h"
#include "base/dtype.h"

#define GPU_FN inline
#define GPU_KERNEL(threads) void

namespace trireme::gpu {

using emulated::Place;
using emulated::Size;
using emulated::wave_width;

inline int recomputed(int x) {  // see vendor/language.h
  return x;
}

template <class T>
const T* recomputed(const T* x) {
  return x;
}

inline unsigned thread_index() {
  return emulated::running.thread->index;
}
inline unsigned block_size() {
  return emulated::running.threads.x;
}
inline Size block_index() {
  return emulated::running.block;
}
inline Size grid_size() {
  return emulated::running.grid;
}

inline void sync_block(Place place = Place::current()) {
  emulated::sync_block(place);
}
inline void sync_wave(Place place = Place::current()) {
  emulated::sync_wave(place);
}

template <class V>
V shuffle(V v, int from, Place place = Place::current()) {
  static_assert(sizeof v <= emulated::Wave::slot_bytes);
  const emulated::Exchange all = emulated::exchange(&v, sizeof v, place);
  const emulated::Bookkeeping bookkeeping;
  V result;
  std::memcpy(&result, all.slots + from * emulated::Wave::slot_bytes, sizeof result);
  return result;
}
template <class V>
V shuffle_xor(V v, int mask, Place place = Place::current()) {
  return gpu::shuffle(v, emulated::running.thread->lane ^ mask, place);
}

namespace detail {
template <class T>
inline const std::size_t shared_id = emulated::new_shared_id();
}
template <class T>
T& shared_memory() {
  return *reinterpret_cast<T*>(emulated::shared_memory(detail::shared_id<T>, sizeof(T)));
}
template <class T>
T* dynamic_shared_memory() {
  return reinterpret_cast<T*>(emulated::dynamic_shared_memory());
}

inline void check_aligned(const void* p, std::uintptr_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(p) % bytes != 0) emulated::stop("an unaligned access");
}

inline void atomic_add(std::int64_t* to, std::int64_t value) {
  std::atomic_ref(*to).fetch_add(value, std::memory_order_relaxed);
}
inline void atomic_add(std::int32_t* to, std::int32_t value) {
  std::atomic_ref(*to).fetch_add(value, std::memory_order_relaxed);
}
inline void atomic_min(std::uint64_t* to, std::uint64_t value) {
  std::atomic_ref now(*to);
  for (std::uint64_t seen = now; value < seen && !now.compare_exchange_weak(seen, value);) {
  }
}
inline void atomic_max(std::uint32_t* to, std::uint32_t value) {
  std::atomic_ref now(*to);
  for (std::uint32_t seen = now; value > seen && !now.compare_exchange_weak(seen, value);) {
  }
}

inline float half_to_float(f16 x) {
  return static_cast<float>(x);
}
inline f16 float_to_half(float x) {
  return f16(x);
}
inline bf16 float_to_bf16(float x) {
  return bf16(x);
}

namespace detail {
template <class T>
std::uint32_t round_pair(float first, float second) {
  return std::uint32_t{T(first).bits} | std::uint32_t{T(second).bits} << 16;
}
}  // namespace detail

inline float exp(float x) {
  return std::exp(x);
}
inline float log(float x) {
  return std::log(x);
}
inline float exp2(float x) {
  return std::exp2(x);
}
inline float exp2_flushed(float x) {  // see vendor/language.h
  const float result = std::exp2(x);
  return result < 0x1p-126f ? 0.0f : result;
}
inline float log2(float x) {
  return std::log2(x);
}
inline float sqrt(float x) {
  return std::sqrt(x);
}
inline double sqrt(double x) {
  return std::sqrt(x);
}
// Rounds to the nearest integer, ties to even.
inline double round_to_even(double x) {
  return std::nearbyint(x);
}
inline float reciprocal(float x) {
  return 1.0f / x;
}
inline float tanh(float x) {
  return std::tanh(x);
}
inline float erfc(float x) {
  return std::erfc(x);
}
inline bool is_finite(float x) {
  return std::isfinite(x);
}

}  // namespace trireme::gpu
