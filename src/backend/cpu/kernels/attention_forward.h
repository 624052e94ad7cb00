// Attention forward in tiles of queries by tiles of keys with an online softmax (Dao 2023,
// arXiv:2307.08691): scores exist for one tile at a time.
//
// Tiles are stored transposed, [keys, queries], so that softmax statistics lie in vector lanes, one
// query each, and no step reduces across lanes. A query's result depends on its own row and its
// visible keys, in an order fixed by their positions, not on the partition of the work.
#pragma once

#include "backend/cpu/kernels/attention_scratch.h"
#include "backend/cpu/kernels/attention_tile.h"

namespace trireme::cpu::TRIREME_ISA {

// Sets a number that other threads raise too to the larger of itself and `value`, neither of them
// negative: such numbers are ordered like their bits.
inline void raise(double* to, double value) {
  auto* const bits = reinterpret_cast<std::int64_t*>(to);
  const auto wanted = __builtin_bit_cast(std::int64_t, value);
  std::int64_t seen = __atomic_load_n(bits, __ATOMIC_RELAXED);
  while (seen < wanted && !__atomic_compare_exchange_n(bits, &seen, wanted, true, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED)) {
  }
}

template <class E>
class ForwardPass {
  using T = typename E::Storage;
  using A = typename E::A;
  using P = typename E::Packed;

 public:
  static constexpr int tile_queries = 32;
  static constexpr int tile_keys = 64;
  static constexpr int strip_keys = 32;
  static constexpr int max_tiles = 32;

  // Computes rows [first, last) of the heads [first_head, first_head + heads) of the group: at most
  // tiles_at_once(head_dim) tiles of queries. lse may be null; head h's row i is lse[h * lse_ld +
  // i].
  static void run(const GroupView<T>& view, std::int64_t first_head, std::int64_t heads,
                  std::int64_t first, std::int64_t last, Rows<T> ctx, A* lse, std::int64_t lse_ld) {
    ForwardPass pass(view);
    pass.begin_tiles(first_head, heads, first, last);
    pass.run_keys();
    for (int i = 0; i < pass.tiles_; ++i) pass.end_tile(pass.s_.tile[i], ctx, lse, lse_ld);
  }
  // Same over a part of the keys, with a full ctx. `resumes`: ctx and lse hold the results over
  // other keys, and get those over all of them.
  static void run_part(const GroupView<T>& view, std::int64_t first_head, std::int64_t heads,
                       std::int64_t first, std::int64_t last, Rows<A> ctx, A* lse,
                       std::int64_t lse_ld, bool resumes) {
    ForwardPass pass(view);
    pass.begin_tiles(first_head, heads, first, last);
    for (int i = 0; resumes && i < pass.tiles_; ++i)
      pass.resume_tile(pass.s_.tile[i], ctx, lse, lse_ld);
    pass.run_keys();
    for (int i = 0; i < pass.tiles_; ++i) pass.end_tile(pass.s_.tile[i], ctx, lse, lse_ld);
  }

  // Number of query tiles that share one walk over the keys.
  static int tiles_at_once(std::int64_t head_dim) {
    const std::int64_t fit = max_operand / (E::padded(head_dim) * tile_queries);
    return static_cast<int>(fit < max_tiles ? fit : max_tiles);
  }

 private:
  using Weights = typename E::template Weights<tile_keys, tile_queries, false, true>;

  struct Tile {
    TileVisibility<A, tile_queries> visible;
    alignas(64) A largest[tile_queries];  // reference of the exponentials, times scale * log2(e)
    alignas(64) A sum[tile_queries];
    alignas(64) A highest[tile_queries];  // score, unscaled; only where the view wants it
    P* q;                                 // right operand, columns inner
    A* ctx;                               // [padded head_dim, tile_queries], not yet divided by sum
    std::int64_t head, query, count;
  };

  struct Scratch {
    alignas(64) P k[max_operand], v[max_operand], q[max_operand];
    alignas(64) A ctx[max_operand];
    alignas(64) A scores[strip_keys * tile_queries];
    alignas(64) A rows[tile_queries * max_head_dim];
    Weights weights;
    Tile tile[max_tiles];
  };

  explicit ForwardPass(const GroupView<T>& view)
      : view_(view),
        s_(scratch_as<Scratch>()),
        width_(E::padded(view.head_dim())),
        block_(keys_at_once(width_)),
        exponent_scale_(static_cast<A>(view.rule.scale * log2_of_e)) {}

  void begin_tiles(std::int64_t first_head, std::int64_t heads, std::int64_t first,
                   std::int64_t last) {
    for (std::int64_t head = first_head; head < first_head + heads; ++head) {
      for (std::int64_t query = first; query < last; query += tile_queries) {
        const std::int64_t rest = last - query;
        begin_tile(head, query, rest < tile_queries ? rest : tile_queries);
      }
    }
  }

  // Resumes from a normalized result: lse stands for a sum of 1 relative to lse.
  void resume_tile(Tile& tile, Rows<A> ctx, const A* lse, std::int64_t lse_ld) {
    const std::int64_t column = tile.head * view_.head_dim();
    for (std::int64_t i = 0; i < tile_queries * width_; i += lanes) store(s_.rows + i, splat(A{0}));
    for (std::int64_t i = 0; i < tile.count; ++i) {
      const A* const from = ctx.row(tile.query + i) + column;
      for_vectors<lanes>(view_.head_dim(), [&](std::int64_t d, auto amount) TRIREME_INLINE_LAMBDA {
        store(s_.rows + i * width_ + d, load(from + d, amount));
      });
      const A sum = lse[tile.head * lse_ld + tile.query + i];
      if (sum == static_cast<A>(-INFINITY)) continue;
      tile.largest[i] = sum * static_cast<A>(log2_of_e);
      tile.sum[i] = 1;
    }
    transpose(tile.ctx, tile_queries, s_.rows, width_, tile_queries, width_);
  }

  void begin_tile(std::int64_t head, std::int64_t query, std::int64_t count) {
    const std::int64_t size = tile_queries * width_;
    Tile& tile = s_.tile[tiles_];
    tile.head = head;
    tile.query = query;
    tile.count = count;
    tile.q = s_.q + tiles_ * size;
    tile.ctx = s_.ctx + tiles_ * size;
    ++tiles_;
    tile.visible.set(view_, query, count);
    const auto q = view_.q.right_by(head * view_.head_dim());
    E::pack_right_columns(tile.q, {q.row(query), q.stride}, count, tile_queries, view_.head_dim());
    for (std::int64_t i = 0; i < size; i += lanes) store(tile.ctx + i, splat(A{0}));
    for (int i = 0; i < tile_queries; ++i) {
      tile.largest[i] = lowest_exponent;
      tile.sum[i] = 0;
      tile.highest[i] = static_cast<A>(-INFINITY);
    }
  }

  void run_keys() {
    std::int64_t begin = INT64_MAX, end = 0;
    for (int i = 0; i < tiles_; ++i) {
      const KeyRange& any = s_.tile[i].visible.any;
      if (any.begin >= any.end) continue;
      begin = any.begin < begin ? any.begin : begin;
      end = any.end > end ? any.end : end;
    }
    const std::int64_t origin = view_.first_key;
    for (std::int64_t key = origin + (begin - origin) / block_ * block_; key < end; key += block_) {
      const std::int64_t rest = end - key;
      run_block(key, rest < block_ ? rest : block_);
    }
  }

  void run_block(std::int64_t first, std::int64_t count) {
    const std::int64_t padded = round_up(count, key_step);
    E::pack_left_tokens(s_.k, {view_.k.row(first), view_.k.stride}, count, padded,
                        view_.head_dim());
    E::pack_left_columns(s_.v, {view_.v.row(first), view_.v.stride}, count, padded,
                         view_.head_dim());
    for (int i = 0; i < tiles_; ++i) {
      Tile& tile = s_.tile[i];
      if (tile.visible.any.end <= first) continue;
      const std::int64_t limit = first + round_up(tile.visible.any.end - first, key_step);
      const std::int64_t last = limit < first + padded ? limit : first + padded;
      for (std::int64_t key = first; key < last; key += tile_keys) {
        const std::int64_t end = key + tile_keys < last ? key + tile_keys : last;
        if (end > tile.visible.any.begin) run_tile(tile, first, key, end - key);
      }
    }
  }

  // Processes a tile of queries against `count` keys from `key` on; the packed keys start at
  // `block`. Scores are computed for few keys at a time, which stay in L1.
  void run_tile(Tile& tile, std::int64_t block, std::int64_t key, std::int64_t count) {
    std::int64_t added = 0;  // rows of weights whose values are in ctx
    for (std::int64_t row = 0; row < count; row += strip_keys) {
      const std::int64_t at = key + row;
      E::product(s_.scores, tile_queries, E::left_tokens(s_.k, at - block, width_),
                 E::right_columns(tile.q, tile_queries, 0), strip_keys, tile_queries, width_,
                 false);
      if (view_.rule.soft_cap > 0) {
        cap_scores(s_.scores, static_cast<A>(view_.rule.soft_cap / view_.rule.scale),
                   strip_keys * tile_queries);
      }
      if (view_.rule.alibi_heads > 0) {
        add_distances<tile_queries>(s_.scores, slope_of(tile.head), at,
                                    view_.first_query + tile.query, strip_keys);
      }
      if (!tile.visible.sees_all_of(at, at + strip_keys)) {
        mask_scores<tile_queries>(s_.scores, tile.visible, 0, at, strip_keys);
      }
      if (view_.largest) note_highest(tile);
      if (exceeds_reference(tile)) {
        add_values(tile, key - block, added, row);
        added = row;
        raise_reference(tile);
      }
      if (view_.dropout) {
        exponentiate(tile, at, row, KeepFactors<A, tile_queries>(view_, tile.head));
      } else {
        exponentiate(tile, at, row, KeepAll());
      }
    }
    add_values(tile, key - block, added, count);
  }

  A slope_of(std::int64_t head) const {
    return static_cast<A>(alibi_slope(view_, head) / view_.rule.scale);
  }

  // ctx += values * weights, rows [begin, end) of the tile whose first key is packed at `packed`.
  void add_values(Tile& tile, std::int64_t packed, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    E::product(tile.ctx, tile_queries, E::left_columns(s_.v, packed + begin, width_),
               s_.weights.right(begin), width_, tile_queries, end - begin, true);
  }

  // Returns whether a score exceeds its query's reference by so much that weights would exceed
  // 2^slack. Smaller excesses only make some weights larger than 1.
  bool exceeds_reference(const Tile& tile) const {
    bool exceeds = false;
    for (int q = 0; q < tile_queries; q += lanes) {
      exceeds |= any_less(load(tile.largest + q) + splat(slack), largest_exponent(q));
    }
    return exceeds;
  }

  // Raises the references of queries that need it, and rescales their sums.
  void raise_reference(Tile& tile) {
    A* ctx = tile.ctx;
    for (int q = 0; q < tile_queries; q += lanes) {
      const Vec<A> old = load(tile.largest + q), largest = largest_exponent(q);
      const Vec<A> next = where_less(old + splat(slack), largest, largest, old);
      const Vec<A> factor = where_less(old, next, exp2(old - next), splat(A{1}));
      store(tile.largest + q, next);
      store(tile.sum + q, load(tile.sum + q) * factor);
      for (std::int64_t d = 0; d < width_; ++d) {
        store(ctx + d * tile_queries + q, load(ctx + d * tile_queries + q) * factor);
      }
    }
  }

  void note_highest(Tile& tile) {
    for (int q = 0; q < tile_queries; q += lanes)
      store(tile.highest + q, max(load(tile.highest + q), largest_score(q)));
  }

  TRIREME_INLINE Vec<A> largest_exponent(int q) const {
    return largest_score(q) * splat(exponent_scale_);
  }

  // Largest score of each query in one vector.
  TRIREME_INLINE Vec<A> largest_score(int q) const {
    const A* scores = s_.scores + q;
    Vec<A> largest[4];
    for (int i = 0; i < 4; ++i) largest[i] = load(scores + i * tile_queries);
    for (int j = 4; j < strip_keys; j += 4) {
      for (int i = 0; i < 4; ++i) {
        largest[i] = max(largest[i], load(scores + (j + i) * tile_queries));
      }
    }
    return max(max(largest[0], largest[1]), max(largest[2], largest[3]));
  }

  // scores -> weights 2^(score - reference), summed per query before dropout. Row 0 of scores is
  // key `key` and goes to row `row` of the weights.
  template <class Keep>
  void exponentiate(Tile& tile, std::int64_t key, std::int64_t row, Keep keep) {
    constexpr int vectors = tile_queries / lanes;
    const Vec<A> scale = splat(exponent_scale_);
    const A* scores = s_.scores;
    Vec<A> reference[vectors], sum[vectors];
    for (int v = 0; v < vectors; ++v) {
      reference[v] = load(tile.largest + v * lanes);
      sum[v] = load(tile.sum + v * lanes);
    }
    for (int j = 0; j < strip_keys; j += 2) {
      if constexpr (Keep::is_dropout) {
        if (j % Keep::keys == 0) keep.draw(key + j, view_.first_query + tile.query);
      }
      Vec<A> w[2][vectors];
      for (int i = 0; i < 2; ++i) {
        for (int v = 0; v < vectors; ++v) {
          w[i][v] = exp2(load(scores + (j + i) * tile_queries + v * lanes) * scale - reference[v]);
          sum[v] += w[i][v];
          if constexpr (Keep::is_dropout)
            w[i][v] = w[i][v] * keep.at(j % Keep::keys + i, v * lanes);
        }
      }
      s_.weights.put(row + j, 0, w);
    }
    for (int v = 0; v < vectors; ++v) store(tile.sum + v * lanes, sum[v]);
  }

  template <class To>
  void end_tile(const Tile& tile, Rows<To> ctx, A* lse, std::int64_t lse_ld) {
    if (view_.largest) {
      A highest = 0;
      for (std::int64_t i = 0; i < tile.count; ++i)
        highest = tile.highest[i] > highest ? tile.highest[i] : highest;
      raise(view_.largest + tile.head, static_cast<double>(highest) * view_.rule.scale);
    }
    const std::int64_t column = tile.head * view_.head_dim();
    for (std::int64_t i = 0; i < tile.count; ++i) {
      prefetch_row<_MM_HINT_ET0>(ctx.row(tile.query + i) + column, view_.head_dim());
    }
    transpose(s_.rows, width_, tile.ctx, tile_queries, width_, tile_queries);
    for (std::int64_t i = 0; i < tile.count; ++i) {
      const A sum = tile.sum[i];
      store_row<To>(ctx.row(tile.query + i) + column, s_.rows + i * width_, view_.head_dim(),
                    sum == 0 ? A{0} : A{1} / sum);
      if (!lse) continue;
      lse[tile.head * lse_ld + tile.query + i] =
          sum == 0 ? static_cast<A>(-INFINITY)
                   : (tile.largest[i] + log2(sum)) * static_cast<A>(ln_of_2);
    }
  }

  static constexpr int lanes = Vec<A>::lanes;
  static constexpr A slack = 8;
  static constexpr A lowest_exponent = static_cast<A>(-1e30);

  const GroupView<T>& view_;
  Scratch& s_;
  const std::int64_t width_, block_;
  const A exponent_scale_;
  int tiles_ = 0;
};

}  // namespace trireme::cpu::TRIREME_ISA
