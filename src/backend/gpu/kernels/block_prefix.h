// Exclusive prefix sums over the threads of a block.
#pragma once

#include "backend/gpu/language.h"

namespace trireme::gpu {

namespace detail {
template <int threads>
struct WaveTotals {
  std::int32_t of[threads / narrowest_wave];
};
}  // namespace detail

// Sum of the values of all threads before this one, and of all threads.
struct Prefix {
  std::int32_t before, all;
};
template <int threads>
GPU_FN Prefix block_prefix(std::int32_t value) {
  auto& totals = shared_memory<detail::WaveTotals<threads>>();
  std::int32_t sum = value;
  for (int distance = 1; distance < wave_width; distance *= 2) {
    const std::int32_t other = shuffle(sum, (lane() - distance + wave_width) % wave_width);
    if (lane() >= distance) sum += other;
  }
  if (lane() == wave_width - 1) totals.of[wave_index()] = sum;
  sync_block();
  Prefix result{sum - value, 0};
  for (int w = 0; w < threads / wave_width; ++w) {
    if (w < wave_index()) result.before += totals.of[w];
    result.all += totals.of[w];
  }
  sync_block();  // the next call reuses the memory
  return result;
}

}  // namespace trireme::gpu
