// Common to the forward and the backward pass of attention: sizes of blocks, masks, dropout.
#pragma once

#include "backend/cpu/kernels/attention_math.h"
#include "backend/cpu/kernels/attention_view.h"
#include "backend/cpu/kernels/dropout_mask.h"
#include "backend/cpu/kernels/math.h"

namespace trireme::cpu::TRIREME_ISA {

// Elements of one packed operand: 1024 tokens of 64 columns, 256 of 256.
inline constexpr std::int64_t max_operand = 65536;
// Packed tokens are padded to a multiple of this.
inline constexpr std::int64_t key_step = 32;

// Number of keys packed together, such that they fit in L2.
inline std::int64_t keys_at_once(std::int64_t width) {
  const std::int64_t keys = max_operand / width / 128 * 128;
  return keys < 512 ? keys : 512;
}

// Sets scores [count keys, queries] to -infinity where the key is not visible. Row 0 is key
// `first`, column 0 is lane `lane` of the tile of queries.
template <int queries, class A, int tile_queries>
void mask_scores(A* scores, const TileVisibility<A, tile_queries>& visible, int lane,
                 std::int64_t first, std::int64_t count) {
  constexpr int lanes = Vec<A>::lanes;
  const Vec<A> never = splat(static_cast<A>(-INFINITY));
  for (std::int64_t j = 0; j < count; ++j) {
    const Vec<A> key = splat(static_cast<A>(first + j));
    for (int q = 0; q < queries; q += lanes) {
      A* at = scores + j * queries + q;
      Vec<A> score = where_less(key, load(visible.end + lane + q), load(at), never);
      score = where_less(key, load(visible.begin + lane + q), never, score);
      store(at, score);
    }
  }
}

// Adds slope x (key - query) to scores [count keys, queries], with row 0 for key `key` and column 0
// for query `query`. The slope is that of unscaled scores.
template <int queries, class A>
void add_distances(A* scores, A slope, std::int64_t key, std::int64_t query, std::int64_t count) {
  constexpr int lanes = Vec<A>::lanes;
  alignas(64) A places[queries];
  for (int q = 0; q < queries; ++q) places[q] = static_cast<A>(query + q);
  for (std::int64_t j = 0; j < count; ++j) {
    const Vec<A> place = splat(static_cast<A>(key + j));
    for (int q = 0; q < queries; q += lanes) {
      A* at = scores + j * queries + q;
      store(at, load(at) + (place - load(places + q)) * splat(slope));
    }
  }
}

// Soft cap: replaces `count` scores s by cap x tanh(s / cap).
template <class A>
void cap_scores(A* scores, A cap, std::int64_t count) {
  const Vec<A> caps = splat(cap), part = splat(1 / cap);
  for (std::int64_t i = 0; i < count; i += Vec<A>::lanes)
    store(scores + i, caps * tanh(load(scores + i) * part));
}

// Derivative of the soft cap, which scales the gradient of a capped score; 0 for -infinity, which
// marks keys that are not visible.
template <class A>
TRIREME_INLINE Vec<A> slope_at(Vec<A> capped, A cap) {
  const Vec<A> t = max(splat(A{-1}), capped * splat(1 / cap));
  return splat(A{1}) - t * t;
}

// Draws the dropout factors of one head for a few keys at a time.
template <class A, int queries>
class KeepFactors {
 public:
  static constexpr bool is_dropout = true;
  static constexpr int keys = AttentionDropout<A>::block_keys;

  template <class T>
  KeepFactors(const GroupView<T>& view, std::int64_t head)
      : site_(*view.dropout, view.first_head + head, view.sample) {}

  // Draws for keys [key, key + keys), a multiple of keys, and queries [query, query + queries).
  void draw(std::int64_t key, std::int64_t query) {
    for (int q = 0; q < queries; q += AttentionDropout<A>::block_queries) {
      site_.block(factors_ + q, queries, key, query + q);
    }
  }
  // Factors of the drawn key `row` for one vector of queries.
  Vec<A> at(int row, int q) const { return load(factors_ + row * queries + q); }

 private:
  AttentionDropout<A> site_;
  alignas(64) A factors_[keys * queries];
};

// Replacement of KeepFactors without dropout.
struct KeepAll {
  static constexpr bool is_dropout = false;
};

// dst = src * factor in the storage type.
template <class T>
TRIREME_INLINE void store_row(T* dst, const Acc<T>* src, std::int64_t count, Acc<T> factor) {
  for_vectors<lanes_of<T>>(count, [&](std::int64_t d, auto amount) TRIREME_INLINE_LAMBDA {
    store(dst + d, load(src + d) * splat(factor), amount);
  });
}

}  // namespace trireme::cpu::TRIREME_ISA
