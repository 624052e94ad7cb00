// A product of a linear layer as libraries say it, whose matrices are stored column by column: what
// is [r, c] row by row is c x r there.
#pragma once

#include <bit>
#include <cstdint>

#include "backend/choices.h"
#include "base/error.h"

namespace trireme::gpu {

// D [m, n] = op(A) op(B), summed over k. A is the second operand of LinearProduct::run, B the first
// one, and a column of D is a row of its destination. Leading dimensions are the stored rows, and m
// for D.
struct ColumnMajor {
  struct Stored {
    std::int64_t rows, columns;
    bool transposed;  // op
  };
  std::int64_t m, n, k;
  Stored a, b;
};

inline ColumnMajor column_major(Product product, const LinearShape& s) {
  switch (product) {
    case Product::forward:  // y^T = weight x^T
      return {s.out, s.rows, s.in, {s.in, s.out, true}, {s.in, s.rows, false}};
    case Product::input_grad:  // dx^T = weight^T dy^T
      return {s.in, s.rows, s.out, {s.in, s.out, false}, {s.out, s.rows, false}};
    case Product::weight_grad:  // dweight^T = x^T dy
      return {s.in, s.out, s.rows, {s.in, s.rows, false}, {s.out, s.rows, true}};
  }
  return {};
}

// The type of the destination.
inline DType result_type(Product product, DType compute) {
  return product == Product::weight_grad ? DType::f32 : compute;
}

// What the address of a matrix is a multiple of: values begin at multiples of 64 bytes, and parts
// of them at some row.
inline std::uint32_t alignment_of(std::int64_t row_length, DType dtype) {
  constexpr std::uint64_t most = 64;
  const auto bytes = static_cast<std::uint64_t>(row_length * size_of(dtype));
  return static_cast<std::uint32_t>(std::uint64_t{1} << std::countr_zero(bytes | most));
}

// Heuristics were told how operands lie.
inline void check_alignment(const ProductKey& key, const void* dst, const void* a, const void* b) {
  const ColumnMajor what = column_major(key.product, key.shape());
  const auto check = [](const void* p, std::int64_t row_length, DType dtype) {
    if (reinterpret_cast<std::uintptr_t>(p) % alignment_of(row_length, dtype) != 0)
      fail("an operand of a matrix product lies at {}, in the midst of a row of {} elements", p,
           row_length);
  };
  check(b, what.a.rows, key.compute);
  check(a, what.b.rows, key.compute);
  check(dst, what.m, result_type(key.product, key.compute));
}

}  // namespace trireme::gpu
