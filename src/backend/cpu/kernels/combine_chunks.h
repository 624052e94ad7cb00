// Reductions over rows: fixed chunks of rows in parallel, with partial sums added in order.
#pragma once

#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/simd.h"
#include "backend/cpu/row_chunks.h"

namespace trireme::cpu::TRIREME_ISA {

// Runs body(chunk, begin, end) for every chunk of `chunk_rows` rows, with
// several short chunks per task.
template <class Body>
void parallel_chunks(std::int64_t rows, std::int64_t chunk_rows, double row_ns, const Body& body) {
  const std::int64_t chunks = (rows + chunk_rows - 1) / chunk_rows;
  parallel_pieces(chunks, row_ns * static_cast<double>(chunk_rows),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
                      const std::int64_t first = chunk * chunk_rows;
                      body(chunk, first, first + chunk_rows < rows ? first + chunk_rows : rows);
                    }
                  });
}

// Elements per chunk if a whole tensor is reduced to one result; at
// most max_flat_chunks chunks.
inline constexpr std::int64_t max_flat_chunks = 256;

inline std::int64_t flat_chunk(std::int64_t count) {
  constexpr std::int64_t least = 16384;
  const std::int64_t even = (count + max_flat_chunks - 1) / max_flat_chunks;
  return even < least ? least : even;
}

// dst (+)= the sum of the rows of parts [chunks, cols], first to last.
template <class A>
void combine_chunks(A* dst, bool accumulate, const A* parts, std::int64_t chunks,
                    std::int64_t cols) {
  constexpr int lanes = Vec<A>::lanes;
  const double col_ns = 0.3 * static_cast<double>(chunks);
  parallel_pieces(
      cols, col_ns,
      [=](std::int64_t begin, std::int64_t end) {
        for_vectors<lanes>(end - begin, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
          Vec<A> sum = splat(A{0});
          for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
            sum += load(parts + chunk * cols + begin + i, n);
          }
          if (accumulate) sum += load(dst + begin + i, n);
          store(dst + begin + i, sum, n);
        });
      },
      4 * lanes);
}

// Four rows at once, which quarters the traffic of the sum; the order is the same.
template <class T>
void add_four_rows(Acc<T>* sum, const T* row, std::int64_t cols) {
  for_vectors<lanes_of<T>>(cols, [&](std::int64_t i, auto n) TRIREME_INLINE_LAMBDA {
    const auto two = load(sum + i, n) + load(row + i, n) + load(row + cols + i, n);
    store(sum + i, two + load(row + 2 * cols + i, n) + load(row + 3 * cols + i, n), n);
  });
}

// dst (+)= the sum of the rows that make(row, count) returns, `count` of them from `row` on, at
// most four at a time. Takes a workspace of row_chunks(rows) * cols.
template <class T, class Make>
void sum_rows(Acc<T>* dst, bool accumulate, Acc<T>* workspace, std::int64_t rows, std::int64_t cols,
              double row_ns, const Make& make) {
  parallel_chunks(rows, rows_per_chunk(rows), row_ns,
                  [&](std::int64_t chunk, std::int64_t begin, std::int64_t end) {
                    Acc<T>* sum = workspace + chunk * cols;
                    __builtin_memset(sum, 0, cols * sizeof(Acc<T>));
                    std::int64_t r = begin;
                    for (; r + 4 <= end; r += 4) add_four_rows<T>(sum, make(r, 4), cols);
                    for (; r < end; ++r) add_row<T>(sum, make(r, 1), cols);
                  });
  combine_chunks(dst, accumulate, workspace, row_chunks(rows), cols);
}

}  // namespace trireme::cpu::TRIREME_ISA
