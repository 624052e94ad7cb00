// A product of a linear layer in the column-major convention of BLAS libraries: a row-major [r,
// c] matrix is c x r there.
#pragma once

#include <bit>
#include <cstdint>

#include "backend/choices.h"
#include "base/error.h"

namespace trireme::gpu {

// D [m, n] = op(A) op(B), summed over k. A is the second operand of LinearProduct::run and B
// the first; a column of D is a row of the destination. The leading dimensions are the stored
// row counts, and m for D.
struct ColumnMajor {
  struct Stored {
    std::int64_t rows, columns;
    bool transposed;  // op
  };
  std::int64_t m, n, k;
  Stored a, b;
};

inline ColumnMajor column_major(const ProductKey& key) {
  const LinearShape s = key.shape();
  if (key.fp8.is_used()) {  // the rows of both operands run along k
    ColumnMajor what = column_major({key.product, key.bias, key.compute, s.rows, s.in, s.out});
    what.a = {what.k, what.m, true};
    what.b = {what.k, what.n, false};
    return what;
  }
  switch (key.product) {
    case Product::forward:  // y^T = weight x^T
      return {s.out, s.rows, s.in, {s.in, s.out, true}, {s.in, s.rows, false}};
    case Product::input_grad:  // dx^T = weight^T dy^T
      return {s.in, s.rows, s.out, {s.in, s.out, false}, {s.out, s.rows, false}};
    case Product::weight_grad:  // dweight^T = x^T dy
      return {s.in, s.out, s.rows, {s.in, s.rows, false}, {s.out, s.rows, true}};
  }
  return {};
}

// Type of the destination.
inline DType result_type(Product product, DType compute) {
  return product == Product::weight_grad ? DType::f32 : compute;
}

// Size of an operand's element in bytes.
inline std::int64_t operand_bytes(const ProductKey& key) {
  return key.fp8.is_used() ? 1 : size_of(key.compute);
}

// Guaranteed alignment of a matrix: values are 64-byte aligned, and parts
// of them begin at any row.
inline std::uint32_t alignment_of(std::int64_t row_length, std::int64_t element) {
  constexpr std::uint64_t most = 64;
  const auto bytes = static_cast<std::uint64_t>(row_length * element);
  return static_cast<std::uint32_t>(std::uint64_t{1} << std::countr_zero(bytes | most));
}

// Returns whether the operands have the alignment the heuristics were told.
inline bool are_aligned(const ProductKey& key, const void* dst, const void* a, const void* b) {
  const ColumnMajor what = column_major(key);
  const auto is_aligned = [](const void* p, std::int64_t row_length, std::int64_t element) {
    return reinterpret_cast<std::uintptr_t>(p) % alignment_of(row_length, element) == 0;
  };
  return is_aligned(b, what.a.rows, operand_bytes(key)) &&
         is_aligned(a, what.b.rows, operand_bytes(key)) &&
         is_aligned(dst, what.m, size_of(result_type(key.product, key.compute)));
}

}  // namespace trireme::gpu
