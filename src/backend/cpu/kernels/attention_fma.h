// Tile products of attention with fused multiply-adds in float (or double), for storage types
// without a matrix unit. 16-bit types are converted when they are packed.
#pragma once

#include "backend/cpu/attention_sizes.h"
#include "backend/cpu/kernels/attention_math.h"
#include "backend/cpu/kernels/attention_view.h"

namespace trireme::cpu::TRIREME_ISA {

template <class T>
struct FmaEngine {
  using Storage = T;
  using A = Acc<T>;
  using Packed = A;  // element of packed operands

  static constexpr int lanes = Vec<A>::lanes;
  // True if one packed copy serves as both left_tokens and left_columns.
  static constexpr bool shares_left = true;

  // A product's left operand [m, k]: element (i, j) is data[i * row + j * col].
  struct Left {
    const A* data;
    std::int64_t row, col;
  };
  // A product's right operand [k, n]: element (i, j) is data[i * row + j].
  struct Right {
    const A* data;
    std::int64_t row;
  };

  // Prepares the engine on this thread for the lifetime of the object.
  struct Session {
    const FlushDenormals flush;
  };

  // Packed head_dim, padded with zeros.
  static constexpr bool is_matrix_unit = false;
  static std::int64_t padded(std::int64_t head_dim) { return attention_columns(head_dim, false); }

  // Packs tokens [0, count) as rows; rows [count, padded_count) become zeros.
  TRIREME_INLINE static void pack_left_tokens(A* dst, Rows<const T> src, std::int64_t count,
                                              std::int64_t padded_count, std::int64_t head_dim) {
    const std::int64_t width = padded(head_dim);
    for (std::int64_t i = 0; i < padded_count; ++i) {
      A* row = dst + i * width;
      for (std::int64_t d = 0; d < width; d += lanes) store(row + d, splat(A{0}));
      if (i >= count) continue;
      for_vectors<lanes>(head_dim, [&](std::int64_t d, auto amount) TRIREME_INLINE_LAMBDA {
        store(row + d, load(src.row(i) + d, amount));
      });
    }
  }
  TRIREME_INLINE static void pack_left_columns(A* dst, Rows<const T> src, std::int64_t count,
                                               std::int64_t padded_count, std::int64_t head_dim) {
    pack_left_tokens(dst, src, count, padded_count, head_dim);
  }

  // Packs with tokens as the inner dimension: [padded_count, padded(head_dim)].
  TRIREME_INLINE static void pack_right_tokens(A* dst, Rows<const T> src, std::int64_t count,
                                               std::int64_t padded_count, std::int64_t head_dim) {
    pack_left_tokens(dst, src, count, padded_count, head_dim);
  }

  // Packs with the head's columns as the inner dimension: [padded(head_dim), padded_count].
  TRIREME_INLINE static void pack_right_columns(A* dst, Rows<const T> src, std::int64_t count,
                                                std::int64_t padded_count, std::int64_t head_dim) {
    alignas(64) A rows[16 * max_head_dim];
    const std::int64_t width = padded(head_dim);
    for (std::int64_t i = 0; i < padded_count; i += 16) {
      const std::int64_t rest = count - i;
      pack_left_tokens(rows, {src.row(i), src.stride}, rest < 16 ? rest : 16, 16, head_dim);
      transpose(dst + i, padded_count, rows, width, 16, width);
    }
  }

  // Views of packed tokens, starting at token `first`.
  static Left left_tokens(const A* data, std::int64_t first, std::int64_t width) {
    return {data + first * width, width, 1};
  }
  static Left left_columns(const A* data, std::int64_t first, std::int64_t width) {
    return {data + first * width, 1, width};
  }
  static Right right_tokens(const A* data, std::int64_t width) { return {data, width}; }
  static Right right_columns(const A* data, std::int64_t tokens, std::int64_t first) {
    return {data + first, tokens};
  }

  // A tile of softmax weights (or their gradient), [keys, queries], laid out for later products.
  template <int max_keys, int queries, bool, bool>
  struct Weights {
    alignas(64) A data[max_keys * queries];

    // Stores rows key and key + 1 of columns [query, query + 32).
    TRIREME_INLINE void put(std::int64_t key, int query, const Vec<A> (&w)[2][32 / lanes]) {
      for (int i = 0; i < 2; ++i) {
        for (int v = 0; v < 32 / lanes; ++v) {
          store(data + (key + i) * queries + query + v * lanes, w[i][v]);
        }
      }
    }
    Left left() const { return {data, queries, 1}; }
    // Right operand starting at row `row`.
    Right right(std::int64_t row) const { return {data + row * queries, queries}; }
  };

  // c = (accumulate ? c : 0) + left * right; m and n are multiples of 16.
  static void product(A* c, std::int64_t ldc, Left left, Right right, std::int64_t m,
                      std::int64_t n, std::int64_t k, bool accumulate) {
    std::int64_t j = 0;
    for (; j + wide * lanes <= n; j += wide * lanes) {
      strip<wide>(c + j, ldc, left, {right.data + j, right.row}, m, k, accumulate);
    }
    for (; j < n; j += lanes) {
      strip<1>(c + j, ldc, left, {right.data + j, right.row}, m, k, accumulate);
    }
  }

 private:
  // Accumulators in registers: 8 x 2 of 64 bytes with 32 registers, 4 x 1 (of two
  // registers each) with 16.
  static constexpr int wide = register_bytes == 64 ? 2 : 1;
  static constexpr int tall = register_bytes == 64 ? 8 : 4;

  // Computes the first vectors * lanes columns.
  template <int vectors>
  static void strip(A* c, std::int64_t ldc, Left left, Right right, std::int64_t m, std::int64_t k,
                    bool accumulate) {
    for (std::int64_t i = 0; i < m; i += tall) {
      A* out = c + i * ldc;
      Vec<A> sum[tall][vectors];
      for (int r = 0; r < tall; ++r) {
        for (int v = 0; v < vectors; ++v) {
          sum[r][v] = accumulate ? load(out + r * ldc + v * lanes) : splat(A{0});
        }
      }
      const A* a = left.data + i * left.row;
      const A* b = right.data;
      for (std::int64_t p = 0; p < k; ++p, a += left.col, b += right.row) {
        Vec<A> row[vectors];
        for (int v = 0; v < vectors; ++v) row[v] = load(b + v * lanes);
        for (int r = 0; r < tall; ++r) {
          const Vec<A> factor = splat(a[r * left.row]);
          for (int v = 0; v < vectors; ++v) sum[r][v] += factor * row[v];
        }
      }
      for (int r = 0; r < tall; ++r) {
        for (int v = 0; v < vectors; ++v) store(out + r * ldc + v * lanes, sum[r][v]);
      }
    }
  }
};

}  // namespace trireme::cpu::TRIREME_ISA
