// Scratch layout of ring attention: the state between its steps, and the buffers for one pair of a
// query chunk and a key chunk.
#pragma once

#include <cstdint>

#include "backend/kernels.h"
#include "base/line_parts.h"

namespace trireme::gpu {

// Length of half a chunk; the backward pass computes gradients per half. The halves of a chunk of
// odd length overlap by one position.
constexpr std::int64_t half_of_chunk(std::int64_t chunk) {
  return (chunk + 1) / 2;
}

struct RingScratch : LineParts {
  std::int64_t sums;           // over the steps so far: results, or query gradients, in fp32
  std::int64_t qkv, ctx;       // of the pair; in the backward pass ctx is the result's gradient
  std::int64_t lse;            // of the pair's queries
  std::int64_t first_visible;  // also relative to the pair's first key
  std::int64_t delta, dqkv;    // backward only

  // `element` is the size of the storage type in bytes.
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
