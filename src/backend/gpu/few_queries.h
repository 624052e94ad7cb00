// Attention of a few new positions against a long cache, as in generation: how it is cut over keys.
#pragma once

#include <cstdint>

#include "backend/kernels.h"

namespace trireme::gpu {

// Queries that share their keys; more of them fill tiles.
inline constexpr std::int64_t few_queries = 8;
// Keys of a block: cuts lie at multiples of it, so that bits depend on a sample's length alone.
inline constexpr int split_keys = 256;

constexpr bool has_few_queries(const CachedAttentionShape& s) {
  return s.seq * s.queries_per_group <= few_queries;
}
constexpr std::int64_t splits_of(const CachedAttentionShape& s) {
  return (s.capacity + split_keys - 1) / split_keys;
}
// Floats of what one block leaves: largest score, sum of exponentials, sums of values.
constexpr std::int64_t part_size(std::int64_t head_dim) {
  return head_dim + 2;
}

}  // namespace trireme::gpu
