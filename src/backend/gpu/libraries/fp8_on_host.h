// Products of fp8 bytes by definition (Fp8Operand in device.h), on the host: the reference for
// libraries, and a substitute for one.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "backend/device.h"
#include "backend/gpu/libraries/column_major.h"

namespace trireme::gpu {

inline constexpr std::int64_t fp8_block = 128;

// Numbers of an operand that share a scale: all, 128 of a row, or a square of a weight.
enum class SharedScale : std::uint8_t { all, row, square };

// A matrix of fp8 bytes: `rows` rows of `steps` numbers along the summed dimension.
struct Fp8Matrix {
  Fp8Type type;
  SharedScale shared;
  std::int64_t rows, steps;

  std::int64_t count() const { return rows * steps; }
  std::int64_t blocks() const { return (steps + fp8_block - 1) / fp8_block; }
  std::int64_t blocks_in_memory() const { return (blocks() + 3) / 4 * 4; }  // of a row of squares
  std::int64_t scales() const {
    return shared == SharedScale::all   ? 1
           : shared == SharedScale::row ? blocks() * rows
                                        : (rows + fp8_block - 1) / fp8_block * blocks_in_memory();
  }
  std::int64_t scale_of(std::int64_t row, std::int64_t step) const {
    const std::int64_t block = step / fp8_block;
    return shared == SharedScale::all   ? 0
           : shared == SharedScale::row ? block * rows + row
                                        : row / fp8_block * blocks_in_memory() + block;
  }
};

// The operands of a product. The result has the rows of a as rows and the rows of b as columns.
inline Fp8Matrix fp8_matrix_a(const ProductKey& key) {
  const ColumnMajor what = column_major(key);
  const bool whole = key.fp8.scales == Fp8Recipe::tensorwise;
  return {key.fp8.a, whole ? SharedScale::all : SharedScale::row, what.n, what.k};
}
inline Fp8Matrix fp8_matrix_b(const ProductKey& key) {
  const ColumnMajor what = column_major(key);
  const bool whole = key.fp8.scales == Fp8Recipe::tensorwise;
  const bool is_weight = key.product != Product::weight_grad;
  return {key.fp8.b,
          whole       ? SharedScale::all
          : is_weight ? SharedScale::square
                      : SharedScale::row,
          what.m, what.k};
}

inline std::vector<float> numbers_of(const Fp8Matrix& matrix, const std::uint8_t* bytes,
                                     const float* inverse_scales) {
  std::array<float, 256> meaning{};
  for (std::size_t byte = 0; byte < meaning.size(); ++byte)
    meaning[byte] = from_fp8(matrix.type, static_cast<std::uint8_t>(byte));
  std::vector<float> numbers(static_cast<std::size_t>(matrix.count()));
  std::size_t i = 0;
  for (std::int64_t row = 0; row < matrix.rows; ++row)
    for (std::int64_t step = 0; step < matrix.steps; ++step, ++i)
      numbers[i] = meaning[bytes[i]] * inverse_scales[matrix.scale_of(row, step)];
  return numbers;
}

// A vector, because this is compiled at a level that makes none of loops.
using EightLanes __attribute__((vector_size(8 * sizeof(float)))) = float;

inline void add_products(EightLanes& lanes, const float* p, const float* q) {
  EightLanes left, right;
  std::memcpy(&left, p, sizeof left);
  std::memcpy(&right, q, sizeof right);
  lanes += left * right;
}

// Dot product of two rows: 128 numbers at a time in float in eight lanes, which is fast and
// accurate to seven digits, then in double.
inline double sum_of_products(const float* p, const float* q, std::int64_t count) {
  double sum = 0;
  for (std::int64_t begin = 0; begin < count; begin += fp8_block) {
    const std::int64_t end = std::min(begin + fp8_block, count);
    EightLanes lanes{};
    std::int64_t s = begin;
    for (; s + 8 <= end; s += 8) add_products(lanes, p + s, q + s);
    for (; s < end; ++s) lanes[0] += p[s] * q[s];
    for (int lane = 0; lane < 8; ++lane) sum += lanes[lane];
  }
  return sum;
}

// Returns [rows of a, rows of b].
inline std::vector<double> product_on_host(const ProductKey& key, const Fp8Operand& a,
                                           const Fp8Operand& b) {
  const Fp8Matrix left = fp8_matrix_a(key), right = fp8_matrix_b(key);
  const std::vector<float> x = numbers_of(left, a.bytes, a.inverse_scales);
  const std::vector<float> y = numbers_of(right, b.bytes, b.inverse_scales);
  std::vector<double> sums;
  sums.reserve(static_cast<std::size_t>(left.rows * right.rows));
  for (std::int64_t i = 0; i < left.rows; ++i)
    for (std::int64_t j = 0; j < right.rows; ++j)
      sums.push_back(
          sum_of_products(x.data() + i * left.steps, y.data() + j * left.steps, left.steps));
  return sums;
}

}  // namespace trireme::gpu
