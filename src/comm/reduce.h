// Elementwise reductions in the accumulator type of a dtype: f32 for bf16 and
// f16, else the same type.
#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace trireme {

struct ReduceKernels {
  int accumulator_bytes;  // of one element
  // accumulator = src; accumulator = accumulator (+ or max) src; dst = accumulator. `n` elements.
  void (*load)(void* accumulator, const void* src, std::int64_t n);
  void (*combine)(void* accumulator, const void* src, std::int64_t n);
  void (*store)(void* dst, const void* accumulator, std::int64_t n);
};

const ReduceKernels& reduce_kernels(DType dtype, Reduction reduction);

}  // namespace trireme
