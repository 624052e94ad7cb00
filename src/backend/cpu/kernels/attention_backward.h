// Attention backward in tiles, recomputing the probabilities from the saved log-sum-exp.
//
// Order of the walk: blocks of keys ascending; within a block the group's heads, then tiles of
// queries ascending, then tiles of keys ascending. Every element of dq, dk and dv is summed in
// float in exactly this order for any partition of the walk, so a walk that computes only dq, or
// only dk and dv, over part of the group gives the same bits as one that computes all of them.
#pragma once

#include "backend/cpu/attention_sizes.h"
#include "backend/cpu/kernels/attention_scratch.h"
#include "backend/cpu/kernels/attention_tile.h"

namespace trireme::cpu::TRIREME_ISA {

// Inputs and outputs of the backward pass besides the forward's inputs; rows as in GroupView.
template <class T>
struct GroupGrads {
  Rows<const T> ctx, dctx;
  const Acc<T>* lse;  // head h, query i: lse[h * lse_ld + i]
  std::int64_t lse_ld;
  Rows<T> dq, dk, dv;
  // Accumulators of dq for the whole group, dq_elements() of them.
  Acc<T>* dq_sums;
  // Dot products of ctx and dctx, laid out like lse; null: computed from the rows.
  const Acc<T>* delta = nullptr;
  // Alternative to dk and dv: sums to which key gradients are added.
  Rows<Acc<T>> dk_sums = {}, dv_sums = {};
};

template <class E>
class BackwardPass {
  using T = typename E::Storage;
  using A = typename E::A;
  using P = typename E::Packed;

 public:
  static constexpr int tile_queries = attention_tile_queries;
  static constexpr int tile_keys = 64;
  static constexpr int lanes = Vec<A>::lanes;

  // Part of a group covered by one walk: heads, rows of queries (the first a multiple of
  // tile_queries) and keys (the first a multiple of key_block()).
  struct Part {
    std::int64_t first_head, last_head, first_query, last_query, first_key, last_key;
    // Earlier keys are visited but not written: dropout is drawn for eight keys at a time.
    std::int64_t first_written_key = 0;
    // `resumes`: adds dq to the accumulators of earlier walks over other keys. `last`: also writes
    // dq out, as no walk follows.
    bool resumes = false, last = true;
  };

  static std::int64_t key_block(std::int64_t head_dim) { return keys_at_once(E::padded(head_dim)); }
  static std::int64_t dq_elements(std::int64_t heads, std::int64_t queries, std::int64_t head_dim) {
    return attention_dq_elements(heads, queries, head_dim, E::is_matrix_unit);
  }

  // Dot product that gives a row's delta.
  TRIREME_INLINE static A dot(const T* x, const T* y, std::int64_t count) {
    Vec<A> sum = splat(A{0});
    for_vectors<lanes>(count, [&](std::int64_t d, auto amount) TRIREME_INLINE_LAMBDA {
      sum += load(x + d, amount) * load(y + d, amount);
    });
    return sum_lanes(sum);
  }

  // Writes dq of the part's heads and queries (the part must then have all keys), or dk and dv of
  // its keys (it must then have all heads and queries), or all three.
  template <bool want_dq, bool want_dkv>
  static void run(const GroupView<T>& view, const GroupGrads<T>& grads, const Part& part) {
    BackwardPass pass(view, grads, part);
    for (std::int64_t key = part.first_key; key < part.last_key; key += pass.block_) {
      const std::int64_t rest = part.last_key - key;
      pass.template run_block<want_dq, want_dkv>(key, rest < pass.block_ ? rest : pass.block_);
    }
    if (want_dq && part.last) pass.write_dq();
  }

 private:
  // Scores are computed for blocks of this many keys by this many queries, which stay in L1; their
  // weights are kept for a whole tile.
  static constexpr int block_keys = 32, block_queries = 32;

  // A tile of queries with all data per query.
  struct QueryTile {
    static constexpr int size = tile_queries * max_head_dim;
    alignas(64) P q_tokens[size], q_columns[size], dctx_tokens[size], dctx_columns[size];
    alignas(64) A lse[tile_queries], delta[tile_queries];  // lse times log2(e)
    TileVisibility<A, tile_queries> visible;
    std::int64_t head, query;
    A* dq;  // accumulators, [padded head_dim, tile_queries]
  };

  struct Scratch {
    alignas(64) P k[max_operand], k_columns[E::shares_left ? 64 : max_operand], v[max_operand];
    alignas(64) A dk[max_operand], dv[max_operand];
    alignas(64) A scores[block_keys * block_queries], dweights[block_keys * block_queries];
    alignas(64) A rows[tile_queries * max_head_dim];
    typename E::template Weights<tile_keys, tile_queries, true, false> weights;
    typename E::template Weights<tile_keys, tile_queries, true, true> dscores;
    QueryTile queries;
  };

  BackwardPass(const GroupView<T>& view, const GroupGrads<T>& grads, const Part& part)
      : view_(view),
        grads_(grads),
        part_(part),
        s_(scratch_as<Scratch>()),
        width_(E::padded(view.head_dim())),
        block_(keys_at_once(width_)),
        exponent_scale_(static_cast<A>(view.rule.scale * log2_of_e)) {}

  template <bool want_dq, bool want_dkv>
  void run_block(std::int64_t first, std::int64_t count) {
    // Keys from view_.keys on are padding: no query sees them, whatever their contents.
    const std::int64_t real = view_.keys - first < count ? view_.keys - first : count;
    const std::int64_t padded = real > 0 ? round_up(real, key_step) : 0;
    if (padded > 0) {
      const Rows<const T> k{view_.k.row(first), view_.k.stride};
      E::pack_left_tokens(s_.k, k, real, padded, view_.head_dim());
      if constexpr (want_dq && !E::shares_left) {
        E::pack_left_columns(s_.k_columns, k, real, padded, view_.head_dim());
      }
      E::pack_left_tokens(s_.v, {view_.v.row(first), view_.v.stride}, real, padded,
                          view_.head_dim());
    }
    if constexpr (want_dkv) clear_key_grads(count);
    for (std::int64_t head = part_.first_head; head < part_.last_head; ++head) {
      for (std::int64_t query = part_.first_query; query < part_.last_query;
           query += tile_queries) {
        run_queries<want_dq, want_dkv>(head, query, first, padded);
      }
    }
    if constexpr (want_dkv) write_key_grads(first, count);
  }

  // Processes one tile of queries against the packed keys [block, block + padded).
  template <bool want_dq, bool want_dkv>
  void run_queries(std::int64_t head, std::int64_t query, std::int64_t block, std::int64_t padded) {
    const std::int64_t rest = part_.last_query - query;
    const std::int64_t count = rest < tile_queries ? rest : tile_queries;
    QueryTile& tile = s_.queries;
    tile.head = head;
    tile.query = query;
    tile.dq = dq_sums(head, query);
    if (want_dq && !part_.resumes && block == part_.first_key)
      clear(tile.dq, tile_queries * width_);
    tile.visible.set(view_, query, count);
    if (!tile.visible.sees_any_of(block, block + padded)) return;
    load_queries<want_dkv>(tile, count);
    prefetch_queries(head, query + tile_queries);
    const std::int64_t limit = block + round_up(tile.visible.any.end - block, key_step);
    const std::int64_t last = limit < block + padded ? limit : block + padded;
    for (std::int64_t key = block; key < last; key += tile_keys) {
      const std::int64_t end = key + tile_keys < last ? key + tile_keys : last;
      if (end > tile.visible.any.begin) run_tile<want_dq, want_dkv>(block, key, end - key);
    }
  }

  // Prefetches what load_queries() will read next, while other work is done.
  void prefetch_queries(std::int64_t head, std::int64_t query) const {
    const std::int64_t rest = part_.last_query - query, column = head * view_.head_dim();
    for (std::int64_t i = query; i < query + (rest < tile_queries ? rest : tile_queries); ++i) {
      prefetch_row<_MM_HINT_T1>(view_.q.row(i) + column, view_.head_dim());
      prefetch_row<_MM_HINT_T1>(grads_.ctx.row(i) + column, view_.head_dim());
      prefetch_row<_MM_HINT_T1>(grads_.dctx.row(i) + column, view_.head_dim());
    }
  }

  template <bool want_tokens>
  void load_queries(QueryTile& tile, std::int64_t count) {
    const std::int64_t head_dim = view_.head_dim(), column = tile.head * head_dim;
    const Rows<const T> q{view_.q.row(tile.query) + column, view_.q.stride};
    const Rows<const T> ctx{grads_.ctx.row(tile.query) + column, grads_.ctx.stride};
    const Rows<const T> dctx{grads_.dctx.row(tile.query) + column, grads_.dctx.stride};
    E::pack_right_columns(tile.q_columns, q, count, tile_queries, head_dim);
    E::pack_right_columns(tile.dctx_columns, dctx, count, tile_queries, head_dim);
    if constexpr (want_tokens) {
      E::pack_right_tokens(tile.q_tokens, q, count, tile_queries, head_dim);
      E::pack_right_tokens(tile.dctx_tokens, dctx, count, tile_queries, head_dim);
    }
    const std::int64_t row = tile.head * grads_.lse_ld + tile.query;
    const A* lse = grads_.lse + row;
    const A* delta = grads_.delta ? grads_.delta + row : nullptr;
    for (int i = 0; i < tile_queries; ++i) {
      // Queries without a visible key, or beyond the end, get weights 2^-infinity.
      const bool sees = i < count && tile.visible.begin[i] < tile.visible.end[i];
      tile.lse[i] = sees ? lse[i] * static_cast<A>(log2_of_e) : static_cast<A>(INFINITY);
      tile.delta[i] = !sees ? A{0} : delta ? delta[i] : dot(ctx.row(i), dctx.row(i), head_dim);
    }
  }

  // Processes the tile of queries against `count` keys from `key` on.
  template <bool want_dq, bool want_dkv>
  void run_tile(std::int64_t block, std::int64_t key, std::int64_t count) {
    const QueryTile& tile = s_.queries;
    const std::int64_t at = key - block;
    for (std::int64_t j = 0; j < count; j += block_keys) {
      for (int q = 0; q < tile_queries; q += block_queries) {
        make_weights<want_dkv>(at + j, key + j, j, q);
      }
    }
    if constexpr (want_dkv) {
      E::product(s_.dv + at * width_, width_, s_.weights.left(),
                 E::right_tokens(tile.dctx_tokens, width_), count, width_, tile_queries, true);
      E::product(s_.dk + at * width_, width_, s_.dscores.left(),
                 E::right_tokens(tile.q_tokens, width_), count, width_, tile_queries, true);
    }
    if constexpr (want_dq) {
      const P* k = E::shares_left ? s_.k : s_.k_columns;
      E::product(tile.dq, tile_queries, E::left_columns(k, at, width_), s_.dscores.right(0), width_,
                 tile_queries, count, true);
    }
  }

  // Computes the weights and score gradients of one block: rows [row, ...) and columns [q, ...) of
  // the tile. Its first key is `key`, at index `packed` of the packed keys.
  template <bool want_weights>
  void make_weights(std::int64_t packed, std::int64_t key, std::int64_t row, int q) {
    const QueryTile& tile = s_.queries;
    E::product(s_.scores, block_queries, E::left_tokens(s_.k, packed, width_),
               E::right_columns(tile.q_columns, tile_queries, q), block_keys, block_queries, width_,
               false);
    E::product(s_.dweights, block_queries, E::left_tokens(s_.v, packed, width_),
               E::right_columns(tile.dctx_columns, tile_queries, q), block_keys, block_queries,
               width_, false);
    if (view_.rule.soft_cap > 0) cap_scores(s_.scores, score_cap(), block_keys * block_queries);
    if (view_.rule.alibi_heads > 0) {
      const auto slope = static_cast<A>(alibi_slope(view_, tile.head) / view_.rule.scale);
      add_distances<block_queries>(s_.scores, slope, key, view_.first_query + tile.query + q,
                                   block_keys);
    }
    if (!tile.visible.sees_all_of(key, key + block_keys)) {
      mask_scores<block_queries>(s_.scores, tile.visible, q, key, block_keys);
    }
    if (view_.dropout) {
      differentiate<want_weights>(key, row, q, KeepFactors<A, block_queries>(view_, tile.head));
    } else {
      differentiate<want_weights>(key, row, q, KeepAll());
    }
  }

  // Cap of unscaled scores.
  A score_cap() const { return static_cast<A>(view_.rule.soft_cap / view_.rule.scale); }

  template <bool want_weights, class Keep>
  void differentiate(std::int64_t key, std::int64_t row, int q, Keep keep) {
    if (view_.rule.soft_cap > 0) {
      differentiate_scores<want_weights, true>(key, row, q, keep);
    } else {
      differentiate_scores<want_weights, false>(key, row, q, keep);
    }
  }

  // scores -> weights w = 2^(score - lse), dweights -> dscores = w (dweights -
  // delta), times the slope of a cap; dropout applies to w and dweights. The factor
  // `scale` is applied at the end.
  template <bool want_weights, bool capped, class Keep>
  void differentiate_scores(std::int64_t key, std::int64_t row, int q, Keep& keep) {
    constexpr int vectors = block_queries / lanes;
    const Vec<A> scale = splat(exponent_scale_);
    const A *scores = s_.scores, *dweights = s_.dweights;
    Vec<A> lse[vectors], delta[vectors];
    for (int v = 0; v < vectors; ++v) {
      lse[v] = load(s_.queries.lse + q + v * lanes);
      delta[v] = load(s_.queries.delta + q + v * lanes);
    }
    for (int j = 0; j < block_keys; j += 2) {
      if constexpr (Keep::is_dropout) {
        if (j % Keep::keys == 0) keep.draw(key + j, view_.first_query + s_.queries.query + q);
      }
      Vec<A> w[2][vectors], ds[2][vectors];
      for (int i = 0; i < 2; ++i) {
        for (int v = 0; v < vectors; ++v) {
          const int at = (j + i) * block_queries + v * lanes;
          const Vec<A> score = load(scores + at);
          w[i][v] = exp2(score * scale - lse[v]);
          Vec<A> dw = load(dweights + at);
          if constexpr (Keep::is_dropout) dw = dw * keep.at(j % Keep::keys + i, v * lanes);
          ds[i][v] = w[i][v] * (dw - delta[v]);
          if constexpr (capped) ds[i][v] = ds[i][v] * slope_at(score, score_cap());
          if constexpr (Keep::is_dropout)
            w[i][v] = w[i][v] * keep.at(j % Keep::keys + i, v * lanes);
        }
      }
      if constexpr (want_weights) s_.weights.put(row + j, q, w);
      s_.dscores.put(row + j, q, ds);
    }
  }

  static void clear(A* at, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += lanes) store(at + i, splat(A{0}));
  }

  void clear_key_grads(std::int64_t count) {
    clear(s_.dk, round_up(count, key_step) * width_);
    clear(s_.dv, round_up(count, key_step) * width_);
  }

  void write_key_grads(std::int64_t first, std::int64_t count) {
    constexpr std::int64_t ahead = 16;
    if (grads_.dk_sums.data) return add_key_grads(first, count);
    const std::int64_t skipped = part_.first_written_key - first;
    for (std::int64_t i = skipped > 0 ? skipped : 0; i < count; ++i) {
      if (i + ahead < count) {
        prefetch_row<_MM_HINT_ET0>(grads_.dk.row(first + i + ahead), view_.head_dim());
        prefetch_row<_MM_HINT_ET0>(grads_.dv.row(first + i + ahead), view_.head_dim());
      }
      store_row<T>(grads_.dk.row(first + i), s_.dk + i * width_, view_.head_dim(),
                   static_cast<A>(view_.rule.scale));
      store_row<T>(grads_.dv.row(first + i), s_.dv + i * width_, view_.head_dim(), A{1});
    }
  }

  void add_key_grads(std::int64_t first, std::int64_t count) {
    const auto add = [&](A* to, const A* made, A factor) {
      for_vectors<lanes>(view_.head_dim(), [&](std::int64_t d, auto amount) TRIREME_INLINE_LAMBDA {
        store(to + d, load(to + d, amount) + load(made + d) * splat(factor), amount);
      });
    };
    for (std::int64_t i = 0; i < count; ++i) {
      add(grads_.dk_sums.row(first + i), s_.dk + i * width_, static_cast<A>(view_.rule.scale));
      add(grads_.dv_sums.row(first + i), s_.dv + i * width_, A{1});
    }
  }

  void write_dq() {
    for (std::int64_t head = part_.first_head; head < part_.last_head; ++head) {
      const auto dq = grads_.dq.right_by(head * view_.head_dim());
      for (std::int64_t query = part_.first_query; query < part_.last_query;
           query += tile_queries) {
        const std::int64_t rest = part_.last_query - query;
        const std::int64_t count = rest < tile_queries ? rest : tile_queries;
        for (std::int64_t i = 0; i < count; ++i) {
          prefetch_row<_MM_HINT_ET0>(dq.row(query + i), view_.head_dim());
        }
        transpose(s_.rows, width_, dq_sums(head, query), tile_queries, width_, tile_queries);
        for (std::int64_t i = 0; i < count; ++i) {
          store_row<T>(dq.row(query + i), s_.rows + i * width_, view_.head_dim(),
                       static_cast<A>(view_.rule.scale));
        }
      }
    }
  }

  // Accumulators of one tile of queries, [padded head_dim, tile_queries].
  A* dq_sums(std::int64_t head, std::int64_t query) const {
    const std::int64_t per_head = round_up(view_.queries, tile_queries);
    return grads_.dq_sums + (head * per_head + query) * width_;
  }

  const GroupView<T>& view_;
  const GroupGrads<T>& grads_;
  const Part part_;
  Scratch& s_;
  const std::int64_t width_, block_;
  const A exponent_scale_;
};

}  // namespace trireme::cpu::TRIREME_ISA
