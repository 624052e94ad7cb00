// Building blocks of kernels: vectors, their loads and stores, and loops and sums over rows.
#pragma once

#include "backend/cpu/kernels/storage.h"

namespace trireme::cpu::TRIREME_ISA {

// Calls body(index, amount) for vectors over [0, count), with amount All, or First for the rest.
// The body should be a TRIREME_INLINE_LAMBDA.
template <int lanes, class Body>
TRIREME_INLINE void for_vectors(std::int64_t count, Body&& body) {
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, All{});
  if (i < count) body(i, First{static_cast<int>(count - i)});
}

// Sum of the vectors term(index, amount) over [0, count), in four running sums, because in a single
// one each addition would wait for the previous. Lanes beyond the amount are ignored.
template <class A, class Term>
TRIREME_INLINE A sum_terms(std::int64_t count, Term&& term) {
  constexpr std::int64_t lanes = Vec<A>::lanes;
  Vec<A> sum[4] = {splat(A{0}), splat(A{0}), splat(A{0}), splat(A{0})};
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    for (int k = 0; k < 4; ++k) sum[k] += term(i + k * lanes, All{});
  }
  for (; i + lanes <= count; i += lanes) sum[0] += term(i, All{});
  if (i < count) {
    const First rest = {static_cast<int>(count - i)};
    sum[1] += keep(term(i, rest), rest, A{0});
  }
  return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// sum += row, elementwise.
template <class T>
void add_row(Acc<T>* sum, const T* row, std::int64_t cols) {
  for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    store(sum + i, load(sum + i, n) + load(row + i, n), n);
  });
}

}  // namespace trireme::cpu::TRIREME_ISA
