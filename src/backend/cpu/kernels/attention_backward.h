// Attention backward in tiles, recomputing the probabilities from the saved log-sum-exp.
//
// One walk: blocks of keys ascending; within a block the group's heads, then tiles of queries
// ascending, then tiles of keys ascending. Every element of dq, dk and dv is summed in float in
// exactly this order however the walk is cut, so a walk that makes only dq, or only dk and dv, over
// part of the group gives the same bits as one walk that makes all of them.
#pragma once

#include "backend/cpu/kernels/attention_scratch.h"
#include "backend/cpu/kernels/attention_tile.h"

namespace trireme::cpu::TRIREME_ISA {

// What the backward pass reads and writes besides the forward's inputs; rows as in GroupView.
template <class T>
struct GroupGrads {
  Rows<const T> ctx, dctx;
  const Acc<T>* lse;  // head h, query i: lse[h * lse_ld + i]
  std::int64_t lse_ld;
  Rows<T> dq, dk, dv;
  // Accumulators of dq for the whole group, dq_elements() of them.
  Acc<T>* dq_sums;
};

template <class E>
class BackwardPass {
  using T = typename E::Storage;
  using A = typename E::A;
  using P = typename E::Packed;

 public:
  static constexpr int tile_queries = 64;
  static constexpr int tile_keys = 32;

  // The part of a group that one walk covers: heads, rows of queries (the first a multiple of
  // tile_queries) and keys (the first a multiple of key_block()).
  struct Part {
    std::int64_t first_head, last_head, first_query, last_query, first_key, last_key;
  };

  static std::int64_t key_block(std::int64_t head_dim) { return keys_at_once(E::padded(head_dim)); }
  static std::int64_t dq_elements(std::int64_t heads, std::int64_t queries, std::int64_t head_dim) {
    return heads * round_up(queries, tile_queries) * E::padded(head_dim);
  }

  // Writes dq of the part's heads and queries (then the part must hold all keys), or dk and dv of
  // its keys (then it must hold all heads and queries), or all of them.
  template <bool want_dq, bool want_dkv>
  static void run(const GroupView<T>& view, const GroupGrads<T>& grads, const Part& part) {
    BackwardPass pass(view, grads, part);
    for (std::int64_t key = part.first_key; key < part.last_key; key += pass.block_) {
      const std::int64_t rest = part.last_key - key;
      pass.template run_block<want_dq, want_dkv>(key, rest < pass.block_ ? rest : pass.block_);
    }
    if constexpr (want_dq) pass.write_dq();
  }

 private:
  using Weights = typename E::template Weights<tile_keys, tile_queries, true, false>;
  using ScoreGrads = typename E::template Weights<tile_keys, tile_queries, true, true>;

  // A tile of queries with all that belongs to it.
  struct QueryTile {
    static constexpr int size = tile_queries * max_head_dim;
    alignas(64) P q_tokens[size], q_columns[size], dctx_tokens[size], dctx_columns[size];
    alignas(64) A lse[tile_queries], delta[tile_queries];  // lse times log2(e)
    TileVisibility<A, tile_queries> visible;
    std::int64_t head, query;
    A* dq;  // accumulators, [padded head_dim, tile_queries]
  };

  // What passes between the products of one job and the vector units.
  struct JobTiles {
    alignas(64) A scores[tile_keys * tile_queries], dweights[tile_keys * tile_queries];
    Weights weights;
    ScoreGrads dscores;
  };

  struct Scratch {
    alignas(64) P k[max_operand], k_columns[E::shares_left ? 64 : max_operand], v[max_operand];
    alignas(64) A dk[max_operand], dv[max_operand];
    alignas(64) A keep[tile_keys * tile_queries];
    alignas(64) A rows[tile_queries * max_head_dim];
    QueryTile queries[3];  // of the previous job, whose products may still run, this and the next
    JobTiles tiles[2];
  };

  BackwardPass(const GroupView<T>& view, const GroupGrads<T>& grads, const Part& part)
      : view_(view),
        grads_(grads),
        part_(part),
        s_(scratch_as<Scratch>()),
        width_(E::padded(view.head_dim)),
        block_(keys_at_once(width_)),
        exponent_scale_(static_cast<A>(view.scale * log2_of_e)) {}

  template <bool want_dq, bool want_dkv>
  void run_block(std::int64_t first, std::int64_t count) {
    // Keys behind view_.keys are padding: nobody sees them, whatever they hold.
    const std::int64_t real = view_.keys - first < count ? view_.keys - first : count;
    const std::int64_t padded = real > 0 ? round_up(real, key_step) : 0;
    if (padded > 0) {
      const Rows<const T> k{view_.k.row(first), view_.k.stride};
      E::pack_left_tokens(s_.k, k, real, padded, view_.head_dim);
      if constexpr (want_dq) {
        E::pack_left_columns(s_.k_columns, k, real, padded, view_.head_dim);
      }
      E::pack_left_tokens(s_.v, {view_.v.row(first), view_.v.stride}, real, padded, view_.head_dim);
    }
    if constexpr (want_dkv) clear_key_grads(count);
    run_tiles<want_dq, want_dkv>({first, first + padded});
    if constexpr (want_dkv) write_key_grads(first, count);
  }

  // A tile of queries and a tile of keys that see each other.
  struct Job {
    QueryTile* queries;  // null: none
    std::int64_t key;
  };

  // While the vector units turn one tile's scores into weights and their gradients, the matrix unit
  // (where there is one) takes the products that follow from the previous tile and those that the
  // next one needs.
  template <bool want_dq, bool want_dkv>
  void run_tiles(KeyRange packed) {
    next_head_ = part_.first_head;
    next_query_ = part_.first_query;
    Job job = next_queries<want_dq, want_dkv>(s_.queries[0], packed);
    if (!job.queries) return;
    typename E::Queue queue;
    start_scores(job, packed, s_.tiles[0], queue);
    queue.finish();
    for (int turn = 0; job.queries; turn ^= 1) {
      const Job next = next_job<want_dq, want_dkv>(job, packed);
      if (next.queries) start_scores(next, packed, s_.tiles[turn ^ 1], queue);
      differentiate<want_dkv>(job, s_.tiles[turn], queue);
      queue.finish();
      start_grads<want_dq, want_dkv>(job, packed, s_.tiles[turn], queue);
      job = next;
    }
    queue.finish();
  }

  template <bool want_dq, bool want_dkv>
  Job next_job(const Job& job, KeyRange packed) {
    for (std::int64_t key = job.key + tile_keys; key < packed.end; key += tile_keys) {
      if (job.queries->visible.sees_any_of(key, key + tile_keys)) return {job.queries, key};
    }
    return next_queries<want_dq, want_dkv>(s_.queries[(job.queries - s_.queries + 1) % 3], packed);
  }

  // Loads the next tile of queries that sees any of the packed keys.
  template <bool want_dq, bool want_dkv>
  Job next_queries(QueryTile& tile, KeyRange packed) {
    for (; next_head_ < part_.last_head; ++next_head_, next_query_ = part_.first_query) {
      while (next_query_ < part_.last_query) {
        tile.head = next_head_;
        tile.query = next_query_;
        next_query_ += tile_queries;
        const std::int64_t rest = part_.last_query - tile.query;
        const std::int64_t count = rest < tile_queries ? rest : tile_queries;
        tile.visible.set(view_, tile.query, count);
        if constexpr (want_dq) {
          tile.dq = dq_sums(tile.head, tile.query);
          if (packed.begin == part_.first_key) clear(tile.dq, tile_queries * width_);
        }
        for (std::int64_t key = packed.begin; key < packed.end; key += tile_keys) {
          if (!tile.visible.sees_any_of(key, key + tile_keys)) continue;
          load_queries<want_dkv>(tile, count);
          return {&tile, key};
        }
      }
    }
    return {nullptr, 0};
  }

  template <bool want_tokens>
  void load_queries(QueryTile& tile, std::int64_t count) {
    const std::int64_t head_dim = view_.head_dim, column = tile.head * head_dim;
    const Rows<const T> q{view_.q.row(tile.query) + column, view_.q.stride};
    const Rows<const T> ctx{grads_.ctx.row(tile.query) + column, grads_.ctx.stride};
    const Rows<const T> dctx{grads_.dctx.row(tile.query) + column, grads_.dctx.stride};
    E::pack_right_columns(tile.q_columns, q, count, tile_queries, head_dim);
    E::pack_right_columns(tile.dctx_columns, dctx, count, tile_queries, head_dim);
    if constexpr (want_tokens) {
      E::pack_right_tokens(tile.q_tokens, q, count, tile_queries, head_dim);
      E::pack_right_tokens(tile.dctx_tokens, dctx, count, tile_queries, head_dim);
    }
    const A* lse = grads_.lse + tile.head * grads_.lse_ld + tile.query;
    for (int i = 0; i < tile_queries; ++i) {
      // Queries that see nothing, or do not exist, get weights 2^-infinity.
      const bool sees = i < count && tile.visible.begin[i] < tile.visible.end[i];
      tile.lse[i] = sees ? lse[i] * static_cast<A>(log2_of_e) : static_cast<A>(INFINITY);
      tile.delta[i] = sees ? dot(ctx.row(i), dctx.row(i), head_dim) : A{0};
    }
  }

  TRIREME_INLINE static A dot(const T* x, const T* y, std::int64_t count) {
    Vec<A> sum = splat(A{0});
    for_vectors<lanes>(count, [&](std::int64_t d, auto amount) TRIREME_INLINE_LAMBDA {
      sum += load(x + d, amount) * load(y + d, amount);
    });
    return sum_lanes(sum);
  }

  // scores = k q^T and dweights = v dctx^T.
  void start_scores(const Job& job, KeyRange packed, JobTiles& tiles, typename E::Queue& queue) {
    const std::int64_t at = job.key - packed.begin;
    queue.start({tiles.scores, tile_queries, E::left_tokens(s_.k, nullptr, at, width_),
                 E::right_columns(job.queries->q_columns, tile_queries), tile_keys, tile_queries,
                 width_, false});
    queue.start({tiles.dweights, tile_queries, E::left_tokens(s_.v, nullptr, at, width_),
                 E::right_columns(job.queries->dctx_columns, tile_queries), tile_keys, tile_queries,
                 width_, false});
  }

  // dv += weights dctx, dk += dscores q and dq^T += k^T dscores.
  template <bool want_dq, bool want_dkv>
  void start_grads(const Job& job, KeyRange packed, JobTiles& tiles, typename E::Queue& queue) {
    const std::int64_t at = job.key - packed.begin;
    if constexpr (want_dkv) {
      queue.start({s_.dv + at * width_, width_, tiles.weights.left(),
                   E::right_tokens(job.queries->dctx_tokens, width_), tile_keys, width_,
                   tile_queries, true});
      queue.start({s_.dk + at * width_, width_, tiles.dscores.left(),
                   E::right_tokens(job.queries->q_tokens, width_), tile_keys, width_, tile_queries,
                   true});
    }
    if constexpr (want_dq) {
      queue.start({job.queries->dq, tile_queries,
                   E::left_columns(s_.k, s_.k_columns, at, width_), tiles.dscores.right(), width_,
                   tile_queries, tile_keys, true});
    }
  }

  // scores -> weights w = 2^(score - lse), dweights -> dscores = w (dweights - delta); dropout acts
  // on w and dweights. The factor `scale` of the scores is left to the end.
  template <bool want_weights>
  void differentiate(const Job& job, JobTiles& tiles, typename E::Queue& queue) {
    const QueryTile& queries = *job.queries;
    if (!queries.visible.sees_all_of(job.key, job.key + tile_keys)) {
      mask_scores(tiles.scores, queries.visible, job.key, tile_keys);
    }
    if (view_.dropout) {
      draw_keep<tile_queries>(s_.keep, view_, queries.head, queries.query, job.key, tile_keys);
    }
    // Five products of width / 32 steps each for 16 times two rows.
    const std::int64_t steps = 5 * width_ / 512 > 1 ? 5 * width_ / 512 : 1;
    for (int q = 0; q < tile_queries; q += 32) {
      for (int j = 0; j < tile_keys; j += 2) {
        queue.advance(steps);
        if (view_.dropout) {
          differentiate_rows<want_weights, true>(queries, tiles, j, q);
        } else {
          differentiate_rows<want_weights, false>(queries, tiles, j, q);
        }
      }
    }
  }

  // Keys j and j + 1 of queries [q, q + 32).
  template <bool want_weights, bool dropout>
  TRIREME_INLINE void differentiate_rows(const QueryTile& queries, JobTiles& tiles, int j, int q) {
    constexpr int vectors = 32 / lanes;
    const Vec<A> scale = splat(exponent_scale_);
    Vec<A> w[2][vectors], ds[2][vectors];
    for (int v = 0; v < vectors; ++v) {
      const Vec<A> lse = load(queries.lse + q + v * lanes);
      const Vec<A> delta = load(queries.delta + q + v * lanes);
      for (int i = 0; i < 2; ++i) {
        const int at = (j + i) * tile_queries + q + v * lanes;
        w[i][v] = exp2(load(tiles.scores + at) * scale - lse);
        Vec<A> dw = load(tiles.dweights + at);
        if constexpr (dropout) dw = dw * load(s_.keep + at);
        ds[i][v] = w[i][v] * (dw - delta);
        if constexpr (dropout) w[i][v] = w[i][v] * load(s_.keep + at);
      }
    }
    if constexpr (want_weights) tiles.weights.put(j, q, w);
    tiles.dscores.put(j, q, ds);
  }

  static void clear(A* at, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += lanes) store(at + i, splat(A{0}));
  }

  void clear_key_grads(std::int64_t count) {
    clear(s_.dk, round_up(count, key_step) * width_);
    clear(s_.dv, round_up(count, key_step) * width_);
  }

  void write_key_grads(std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      store_row<T>(grads_.dk.row(first + i), s_.dk + i * width_, view_.head_dim,
                   static_cast<A>(view_.scale));
      store_row<T>(grads_.dv.row(first + i), s_.dv + i * width_, view_.head_dim, A{1});
    }
  }

  void write_dq() {
    for (std::int64_t head = part_.first_head; head < part_.last_head; ++head) {
      for (std::int64_t query = part_.first_query; query < part_.last_query; query += tile_queries) {
        transpose(s_.rows, width_, dq_sums(head, query), tile_queries, width_, tile_queries);
        const std::int64_t rest = part_.last_query - query;
        for (std::int64_t i = 0; i < (rest < tile_queries ? rest : tile_queries); ++i) {
          store_row<T>(grads_.dq.row(query + i) + head * view_.head_dim, s_.rows + i * width_,
                       view_.head_dim, static_cast<A>(view_.scale));
        }
      }
    }
  }

  A* dq_sums(std::int64_t head, std::int64_t query) const {
    const std::int64_t per_head = round_up(view_.queries, tile_queries);
    return grads_.dq_sums + (head * per_head + query) * width_;
  }

  static constexpr int lanes = Vec<A>::lanes;

  const GroupView<T>& view_;
  const GroupGrads<T>& grads_;
  const Part part_;
  Scratch& s_;
  const std::int64_t width_, block_;
  const A exponent_scale_;
  std::int64_t next_head_ = 0, next_query_ = 0;  // where next_queries() goes on
};

}  // namespace trireme::cpu::TRIREME_ISA
