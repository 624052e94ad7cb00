// y = a + dropout(b) by rows, for the residual addition alone and fused with a norm.
#pragma once

#include "backend/cpu/kernels/dropout_mask.h"

namespace trireme::cpu::TRIREME_ISA {

template <class T>
void add_plain(T* y, const T* a, const T* b, std::int64_t count) {
  for_vectors<lanes_of<T>>(count, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    store(y + i, load(a + i, n) + load(b + i, n), n);
  });
}

// a may be null: then y = dropout(b).
template <class T>
void add_dropped_row(T* y, const T* a, const T* b, HiddenDropout<Acc<T>>& mask, std::int64_t cols) {
  constexpr std::int64_t block = HiddenDropout<Acc<T>>::block_columns;
  for (std::int64_t c = 0; c < cols; c += block) {
    const Acc<T>* multipliers = mask.block(c);
    const std::int64_t count = cols - c < block ? cols - c : block;
    if (a) {
      for_vectors<lanes_of<T>>(count, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
        const auto kept = load(b + c + i, n) * load(multipliers + i);
        store(y + c + i, load(a + c + i, n) + kept, n);
      });
    } else {
      for_vectors<lanes_of<T>>(count, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
        store(y + c + i, load(b + c + i, n) * load(multipliers + i), n);
      });
    }
  }
}

}  // namespace trireme::cpu::TRIREME_ISA
