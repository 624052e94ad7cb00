// Exact sums in kernels: integers, to which blocks add in any order.
#pragma once

#include "backend/gpu/language.h"
#include "base/exact_split.h"

namespace trireme::gpu {

// Adds a term to the sum whose state (state_of) starts at `total`.
GPU_FN void add_term(std::int64_t* total, double term) {
  if (term == 0) return;
  const ExactSplit split = split_exactly(term);
  for (int i = 0; i < 3; ++i) {
    if (split.words[i] != 0) atomic_add(total + split.first + i, split.words[i]);
  }
  atomic_add(total + ExactSum::word_count, 1);
}

// Value of a sum of non-negative terms; NaN if one was not finite.
GPU_FN double value_of(const std::int64_t* total) {
  double value = 0, unit = 0x1p-1024, below = 0x1p-128;  // their product is that of word 0
  for (int i = 0; i < ExactSum::limb_count; ++i) {
    if (total[i] != 0) value += static_cast<double>(total[i]) * unit * below;
    if (below < 1)
      below *= 0x1p32;
    else
      unit *= 0x1p32;
  }
  return total[ExactSum::limb_count] == 0 ? value : __builtin_nan("");
}

}  // namespace trireme::gpu
