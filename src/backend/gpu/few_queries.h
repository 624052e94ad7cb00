// Split of attention over keys for a few new positions against a long cache, as in generation.
#pragma once

#include <cstdint>

#include "backend/kernels.h"

namespace trireme::gpu {

// Largest number of queries sharing keys that takes this path; more of them fill matrix tiles.
inline constexpr std::int64_t few_queries = 8;
// Keys per block. Splits lie at its multiples, so bits depend on a sample's length alone.
inline constexpr int split_keys = 256;

constexpr bool has_few_queries(const CachedAttentionShape& s) {
  return s.seq * s.queries_per_group <= few_queries;
}
constexpr std::int64_t splits_of(const CachedAttentionShape& s) {
  return (s.capacity + split_keys - 1) / split_keys;
}
// Floats per partial result: largest score, sum of exponentials, weighted sums of values.
constexpr std::int64_t part_size(std::int64_t head_dim) {
  return head_dim + 2;
}

}  // namespace trireme::gpu
