// State of ring attention between its turns, and its work on one pair of chunks, queries and keys,
// at a time: layout of its scratch.
#pragma once

#include <cstdint>

#include "backend/kernels.h"
#include "base/line_parts.h"

namespace trireme::gpu {

// The backward pass makes gradients of halves of a chunk; where its length is odd they share a
// position.
constexpr std::int64_t half_of_chunk(std::int64_t chunk) {
  return (chunk + 1) / 2;
}

struct RingScratch : LineParts {
  std::int64_t sums;           // of all turns so far: results, or gradients of queries, in fp32
  std::int64_t qkv, ctx;       // of the pair; backward, ctx is the gradient of the result
  std::int64_t lse;            // of the pair's queries
  std::int64_t first_visible;  // the same, counted from the pair's first key
  std::int64_t delta, dqkv;    // backward

  // `element`: bytes of the storage type.
  RingScratch(const AttentionShape& s, std::int64_t element, bool backward) {
    constexpr std::int64_t number = 4;  // bytes of a float or an index
    const std::int64_t rows = s.batch * s.cut.chunk;
    sums = add(2 * rows * s.ctx_cols() * number);
    qkv = add(rows * s.qkv_cols() * element);
    ctx = add(rows * s.ctx_cols() * element);
    lse = add(rows * s.heads() * number);
    first_visible = add(rows * number);
    delta = add(backward ? rows * s.heads() * number : 0);
    dqkv = add(backward ? s.batch * 2 * half_of_chunk(s.cut.chunk) * s.qkv_cols() * element : 0);
  }
};

}  // namespace trireme::gpu
