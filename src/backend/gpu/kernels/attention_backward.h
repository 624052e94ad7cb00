// Attention backward: two similar kernels recompute the probabilities from the saved log-sum-exp. A
// block of the first owns some keys of a group and walks over the query tiles of the group's heads,
// head by head, computing dk and dv. A block of the second owns some queries of one head and walks
// over tiles of keys, computing dq. Every sum thus has one owner and one order, at the cost of
// seven tile products instead of five.
//
// Both have tensors a and b of their own rows, walk over a and b of the other side, and compute
// scores = a a^T and dweights = b b^T; a is k or q, b is v or dctx.
#pragma once

#include <limits>

#include "backend/gpu/kernels/attention.h"

namespace trireme::gpu {

enum class Owner : std::uint8_t { keys, queries };

// Inputs of the backward pass besides those of the forward, and its outputs: gradients of
// all positions or, if a rank has two chunks of each sequence, of `chunk` positions
// starting at each of `firsts`.
template <class T>
struct Gradients {
  const T* dctx;
  const float *lse, *delta;  // [batch, heads, queries]; delta is the sum of ctx * dctx
  T *dq, *dk, *dv;           // laid out like q, k and v, without the omitted positions
  int chunks, chunk;
  int firsts[2];

  GPU_FN int first(int part) const { return part == 0 ? firsts[0] : firsts[1]; }
};

// Blocks per chunk. A chunk that is not a whole sequence may begin within a tile, since a block's
// rows start at a multiple of the alignment of tiles and dropout draws.
inline constexpr int row_alignment = 16;
constexpr int backward_cuts(int chunks, int chunk, int rows) {
  return (chunk + (chunks > 1 ? row_alignment - 1 : 0) + rows - 1) / rows;
}

// The rows of a block, part of a chunk of a sequence. Blocks with the most
// visible pairs come first.
template <Owner owner, int rows>
struct BackwardPlace {
  int sample, part, head;  // head: first of the group if keys are owned
  int first;               // of the block

  template <class T>
  GPU_FN BackwardPlace(const Attention<T>& a, const Gradients<T>& g) {
    const int index = static_cast<int>(block_index().x);
    const int heads = owner == Owner::keys ? a.groups : a.heads();
    const int all = a.batch * g.chunks * heads, of_all = index % all, cut = index / all;
    sample = of_all / heads / g.chunks;
    part = of_all / heads % g.chunks;
    head = of_all % heads * (owner == Owner::keys ? a.queries_per_group : 1);
    const int begin = g.first(part);
    const int cuts = backward_cuts(g.chunks, g.chunk, rows);
    first = begin / row_alignment * row_alignment +
            (owner == Owner::keys ? cut : cuts - 1 - cut) * rows;
  }
};

template <class T, int d>
struct BackwardSizes : AttentionTile<T, d> {
  static constexpr TileSizes sizes = fitting_sizes<T, d>(2, 2);
  static constexpr int rows = sizes.rows, columns = sizes.columns;
  static constexpr bool fits(int passing) {
    return AttentionTile<T, d>::bytes(rows, columns, 2, passing) <= most_shared_bytes;
  }
  // Number of tensors of the other side in shared memory: those of two tiles, of one tile, or a
  // single tensor that is reloaded when it is needed again.
  static constexpr int passing = fits(4) ? 4 : fits(2) ? 2 : 1;
  static constexpr int shared_bytes = AttentionTile<T, d>::bytes(rows, columns, 2, passing);
  static_assert(fits(passing));
  using Waves = RowsOfWaves<rows>;
};

template <class T, int d, Owner owner, bool capped>
class BackwardBlock {
  using Sizes = BackwardSizes<T, d>;
  using Waves = typename Sizes::Waves;
  static constexpr int rows = Waves::tiles, columns = Sizes::columns / tile_size;
  static constexpr int tile = Sizes::columns * Sizes::pitch, passing = Sizes::passing;
  static constexpr bool keys_are_rows = owner == Owner::keys;
  using Place = BackwardPlace<owner, Sizes::rows>;

 public:
  GPU_FN BackwardBlock(const Attention<T>& a, const Gradients<T>& g, const Place& at)
      : a_(a),
        g_(g),
        sample_(at.sample),
        part_(at.part),
        first_head_(at.head),
        first_row_(at.first),
        row_(at.first + Waves::first()),
        seen_(a.whole_visibility(at.sample)),
        own_a_(dynamic_shared_memory<T>()),
        own_b_(own_a_ + Sizes::rows * Sizes::pitch),
        other_(own_b_ + Sizes::rows * Sizes::pitch),
        scratch_(reinterpret_cast<float*>(other_ + passing * tile) +
                 wave_index() * (rows * score_scratch)) {}

  GPU_FN void run() {
    look_at_visibility();
    stage<Sizes::rows, d, Waves::threads>(copies_, own_a_, own_rows(first_head_, true));
    stage<Sizes::rows, d, Waves::threads>(copies_, own_b_, own_rows(first_head_, false));
    Step now = next_seen({first_head_, begin_});
    T* buffer = other_;
    begin_tile(now, buffer);
    while (now.head < last_head()) {
      const Step next = next_seen({now.head, now.first + Sizes::columns});
      T* const next_buffer = passing == 4 ? other_ + (buffer == other_ ? 2 * tile : 0) : other_;
      if constexpr (passing == 4) {
        begin_tile(next, next_buffer);
        copies_.template wait_for_all_but<1>();
      } else {
        copies_.template wait_for_all_but<0>();
      }
      sync_block();
      add_tile(now, buffer);
      sync_block();  // the buffer is no longer read
      if constexpr (passing != 4) begin_tile(next, next_buffer);
      now = next;
      buffer = next_buffer;
    }
    if (Waves::any()) store();
  }

 private:
  // A tile of the other side: queries or keys of a head.
  struct Step {
    int head, first;
  };
  // Per-query values of the weights and gradients.
  struct Query {
    float lse, delta;  // lse times log2(e)
    KeyRange sees;
  };

  GPU_FN int last_head() const { return first_head_ + (keys_are_rows ? a_.queries_per_group : 1); }
  GPU_FN std::int64_t per_query(int head) const {
    return (std::int64_t{sample_} * a_.heads() + head) * a_.queries;
  }

  // --- locations of operands ---

  GPU_FN Matrix<T> queries(int head, bool side_a) const {
    return side_a ? a_.matrix(a_.q + a_.q_offset(sample_, head), a_.q_pitch, a_.queries)
                  : a_.matrix(g_.dctx + a_.ctx_offset(sample_, head), a_.ctx_pitch(), a_.queries);
  }
  GPU_FN Matrix<T> keys(int head, bool side_a) const {
    return a_.matrix(
        (side_a ? a_.k : a_.v) + sample_ * a_.kv_sample + head / a_.queries_per_group * a_.kv_group,
        a_.kv_pitch, seen_.keys);
  }
  GPU_FN Matrix<T> own_rows(int head, bool side_a) const {
    return (keys_are_rows ? keys(head, side_a) : queries(head, side_a)).from(first_row_, 0);
  }
  GPU_FN void stage_other(const Step& step, bool side_a, T* to) {
    const Matrix<T> all = keys_are_rows ? queries(step.head, side_a) : keys(step.head, side_a);
    stage<Sizes::columns, d, Waves::threads>(copies_, to, all.from(step.first, 0));
  }

  // --- relevant tiles of the other side ---

  GPU_FN void look_at_visibility() {
    if constexpr (keys_are_rows) {
      begin_ = seen_.causal ? first_row_ / Sizes::columns * Sizes::columns : 0;
      end_ = first_row_ < seen_.keys ? a_.queries : 0;
    } else {
      int least = seen_.begins ? seen_.keys : 0;
#pragma unroll
      for (int r = 0; r < rows; ++r)
#pragma unroll
        for (int slot = 0; slot < score_row_slots; ++slot) {
          const int query = row_ + r * tile_size + score_row(slot);
          own_[r][slot] = query_at(first_head_, Waves::any() ? query : a_.queries);
          if (Waves::any() && query < a_.queries && own_[r][slot].sees.begin < least)
            least = own_[r][slot].sees.begin;
        }
      if (seen_.begins) least = -block_max<Waves::threads>(-least);
      begin_ = least / Sizes::columns * Sizes::columns;
      const int past = first_row_ + Sizes::rows;
      end_ = seen_.causal && past < seen_.keys ? past : seen_.keys;
    }
  }
  // Returns the first tile from `step` on with a visible query-key pair.
  GPU_FN Step next_seen(Step step) const {
    for (; step.head < last_head(); ++step.head, step.first = begin_)
      for (; step.first < end_; step.first += Sizes::columns)
        if (!keys_are_rows || !seen_.begins || any_query_sees(step.first)) return step;
    return step;
  }
  // Returns whether a query of the tile starts to see before the end of the block's keys.
  GPU_FN bool any_query_sees(int first) const {
    int least = seen_.keys;
    for (int i = lane(); i < Sizes::columns; i += wave_width)
      if (first + i < a_.queries && seen_.begins[first + i] < least)
        least = seen_.begins[first + i];
    return -wave_max(-least) < first_row_ + Sizes::rows;
  }
  GPU_FN Query query_at(int head, int query) const {
    if (query >= a_.queries) return {0, 0, {0, 0}};
    const std::int64_t at = per_query(head) + query;
    return {g_.lse[at] * log2_of_e, g_.delta[at], seen_.of(query)};
  }

  // --- one tile ---

  GPU_FN void begin_tile(const Step& step, T* buffer) {
    if (step.head < last_head()) {
      stage_other(step, true, buffer);
      if constexpr (passing > 1) stage_other(step, false, buffer + tile);
    }
    copies_.commit();
  }
  // If only one tensor fits: loads the other one.
  GPU_FN void exchange_other(const Step& step, bool side_a, T* buffer) {
    if constexpr (passing == 1) {
      sync_block();
      stage_other(step, side_a, buffer);
      copies_.commit();
      copies_.template wait_for_all_but<0>();
      sync_block();
    }
  }

  GPU_FN void add_tile(const Step& step, T* other_a) {
    const T* const other_b = passing == 1 ? other_a : other_a + tile;
    const bool sees = Waves::any() && wave_sees(step.first);
    const int own = Waves::first() * Sizes::pitch;
    SumTile weights[rows][columns] = {}, dscores[rows][columns] = {};
    if (sees) {
      add_scores<d>(weights, own_a_ + own, other_a);
      if (!capped && a_.rule.alibi_heads > 0)
        add_distances<keys_are_rows>(weights, a_, step.head, row_, step.first);
    }
    exchange_other(step, false, other_a);
    if (sees) {
      add_scores<d>(dscores, own_b_ + own, other_b);
      if (a_.dropout.active)
        differentiate<true>(weights, dscores, step);
      else
        differentiate<false>(weights, dscores, step);
      if constexpr (keys_are_rows) add_weighted<d>(sums_b_, weights, other_b, scratch_);
    }
    exchange_other(step, true, other_a);
    if (sees) add_weighted<d>(sums_a_, dscores, other_a, scratch_);
  }
  GPU_FN bool wave_sees(int first) const {
    if constexpr (keys_are_rows) {
      return row_ < seen_.keys && (!seen_.causal || first + Sizes::columns > row_);
    } else {
      return row_ < a_.queries && (!seen_.causal || first <= row_ + rows * tile_size - 1);
    }
  }

  // Converts scores to weights w = 2^(score - lse), and their gradients to those of scores, w
  // (dweight - delta), times the slope of a cap; dropout applies to w and dweight. `scale` is
  // applied at the end. Without dropout there is no branch, which would cost registers.
  template <bool drops>
  GPU_FN void differentiate(SumTile (&weights)[rows][columns], SumTile (&dscores)[rows][columns],
                            const Step& step) {
    using Kept = KeptScores<Waves::threads, rows, columns, keys_are_rows>;
    [[maybe_unused]] Kept kept;
    if constexpr (drops)
      kept.draw(
          AttentionMask(a_.dropout, a_.rule.first_head + step.head, a_.dropout.sample_ids[sample_]),
          keys_are_rows ? step.first : row_, keys_are_rows ? row_ : step.first);
    const Exponents<capped> exponents(a_);
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      [[maybe_unused]] Query others[score_column_slots];
      if constexpr (keys_are_rows) {
#pragma unroll
        for (int slot = 0; slot < score_column_slots; ++slot)
          others[slot] = query_at(step.head, step.first + c * tile_size + score_column(slot));
      }
#pragma unroll
      for (int r = 0; r < rows; ++r)
#pragma unroll
        for (int i = 0; i < TileMap::sums; ++i) {
          const int row = r * tile_size + score_row(score_row_slot(i));
          const int column = c * tile_size + score_column(score_column_slot(i));
          Query query;
          if constexpr (keys_are_rows) {
            query = others[score_column_slot(i)];
          } else {
            query = own_[r][score_row_slot(i)];
          }
          const int key = keys_are_rows ? row_ + row : step.first + column;
          const bool seen = key >= query.sees.begin && key < query.sees.end;
          float& weight = weights[r][c].v[i];
          float& dscore = dscores[r][c].v[i];
          const auto exponent = exponents.of(weight);
          weight = seen ? exp2(exponent.value - query.lse) : 0.0f;
          float factor = 1;
          if constexpr (drops)
            factor = kept.at(keys_are_rows ? column : row, keys_are_rows ? row : column)
                         ? a_.dropout.multiplier
                         : 0.0f;
          dscore = seen ? weight * (dscore * factor - query.delta) : 0.0f;
          if constexpr (capped) dscore *= exponent.slope;
          weight *= factor;
        }
    }
  }

  GPU_FN void store() const {
    // Row that position 0 of the sequence would have.
    const std::int64_t zero =
        (std::int64_t{sample_} * g_.chunks + part_) * g_.chunk - g_.first(part_);
    const int group = first_head_ / a_.queries_per_group;
    if constexpr (keys_are_rows) {
      const std::int64_t from = zero * a_.kv_pitch + group * a_.kv_group;
      store_rows(g_.dk + from, a_.kv_pitch, sums_a_, a_.scale);
      store_rows(g_.dv + from, a_.kv_pitch, sums_b_, 1.0f);
    } else {
      const std::int64_t head = std::int64_t{first_head_ % a_.queries_per_group} * a_.head_dim;
      store_rows(g_.dq + zero * a_.q_pitch + group * a_.q_group + head, a_.q_pitch, sums_a_,
                 a_.scale);
    }
  }
  GPU_FN void store_rows(T* to, std::int64_t to_pitch, const SumTile (&sums)[rows][d / tile_size],
                         float factor) const {
    const int first = recomputed(row_), begin = g_.first(part_), end = begin + g_.chunk;
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int j = 0; j < d / tile_size; ++j)
#pragma unroll
        for (int i = 0; i < TileMap::sums; ++i) {
          const int row = first + r * tile_size + sum_row(TileMap::row_slot(i));
          const int column = j * tile_size + sum_column(TileMap::column_slot(i));
          if (row >= begin && row < end && column < a_.head_dim)
            to[row * to_pitch + column] = from_float<T>(sums[r][j].v[i] * factor);
        }
  }

  const Attention<T>& a_;
  const Gradients<T>& g_;
  const int sample_, part_, first_head_;
  const int first_row_, row_;  // of the block and of this wave
  const Visibility seen_;
  T *const own_a_, *const own_b_, *const other_;  // in shared memory
  float* const scratch_;
  Copies copies_;
  int begin_ = 0, end_ = 0;           // range of the other side's rows
  Query own_[rows][score_row_slots];  // if queries are owned
  SumTile sums_a_[rows][d / tile_size] = {};
  SumTile sums_b_[keys_are_rows ? rows : 1][keys_are_rows ? d / tile_size : 1] = {};
};

template <class T, int d, Owner owner, bool capped>
GPU_KERNEL((BackwardSizes<T, d>::Waves::threads))
backward_kernel(const Attention<T> a, const Gradients<T> g) {
  BackwardBlock<T, d, owner, capped>(a, g, BackwardPlace<owner, BackwardSizes<T, d>::rows>(a, g))
      .run();
}

template <Owner owner, bool capped, class T>
void launch_backward_of(Queue& queue, const Attention<T>& a, const Gradients<T>& g) {
  with_padded_head_dim<capped>(a.head_dim, [&]<int d>() {
    using Sizes = BackwardSizes<T, d>;
    const std::int64_t heads =
        std::int64_t{a.groups} * (owner == Owner::keys ? 1 : a.queries_per_group);
    launch(queue,
           {.blocks = Size{static_cast<unsigned>(a.batch * g.chunks * heads *
                                                 backward_cuts(g.chunks, g.chunk, Sizes::rows))},
            .threads = Sizes::Waves::threads,
            .shared_bytes = Sizes::shared_bytes},
           backward_kernel<T, d, owner, capped>, a, g);
  });
}
template <bool capped, class T>
void launch_backward(Queue& queue, const Attention<T>& a, const Gradients<T>& g) {
  launch_backward_of<Owner::keys, capped>(queue, a, g);
  launch_backward_of<Owner::queries, capped>(queue, a, g);
}

// Calls launch_backward<true>(), compiled in a separate file.
template <class T>
void run_capped_backward(Queue&, const Attention<T>&, const Gradients<T>&);

}  // namespace trireme::gpu
