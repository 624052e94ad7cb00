// Where the kernels of a ring keep what a pair of chunks leaves: a chunk of queries of one sample,
// and one of keys. Parts begin on 64 bytes.
#pragma once

#include "backend/kernels.h"
#include "base/divide.h"

namespace trireme::gpu {

class ScratchParts {
 public:
  std::int64_t bytes = 0;

 protected:
  std::int64_t add(std::int64_t count) {
    const std::int64_t begin = bytes;
    bytes += ceil_div(count, std::int64_t{64}) * 64;
    return begin;
  }
};

// Forward: the result of the pair [chunk, ctx columns], its log-sum-exp [heads, chunk], and the
// first key of the chunk that each query sees [chunk].
struct RingScratch : ScratchParts {
  std::int64_t ctx, lse, begins;

  RingScratch(const AttentionShape& s, std::int64_t type_bytes)
      : ctx(add(s.cut.chunk * s.ctx_cols() * type_bytes)),
        lse(add(s.heads() * s.cut.chunk * 4)),
        begins(add(s.cut.chunk * 4)) {}
};

// Backward: sums of the gradients of all queries [batch * 2 * chunk, ctx columns]; statistics of
// the queries, chunk by chunk [batch, 2, heads, chunk]; gradients of the pair, of the queries as
// they lie in qkv and of keys and values as they lie in kv; and again where queries begin to see.
struct RingGradScratch : ScratchParts {
  std::int64_t queries, lse, delta, dq, dkv, begins;

  RingGradScratch(const AttentionShape& s, std::int64_t type_bytes)
      : queries(add(s.batch * 2 * s.cut.chunk * s.ctx_cols() * 4)),
        lse(add(s.batch * 2 * s.heads() * s.cut.chunk * 4)),
        delta(add(s.batch * 2 * s.heads() * s.cut.chunk * 4)),
        dq(add(s.cut.chunk * s.qkv_cols() * type_bytes)),
        dkv(add(s.cut.chunk * s.groups * 2 * s.head_dim * type_bytes)),
        begins(add(s.cut.chunk * 4)) {}
};

}  // namespace trireme::gpu
