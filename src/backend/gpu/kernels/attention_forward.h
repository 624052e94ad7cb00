// Attention forward with an online softmax (Dao 2023, arXiv:2307.08691): a block owns some queries
// of one head and walks over tiles of keys. Values are copied while scores are computed, and the
// next keys while values are accumulated.
//
// A query's result depends only on its own row and its visible keys, in an order fixed by their
// positions: tiles without a visible key change nothing.
#pragma once

#include <limits>

#include "backend/gpu/kernels/attention.h"

namespace trireme::gpu {

template <class T, int d>
struct ForwardSizes : AttentionTile<T, d> {
  static constexpr TileSizes sizes = fitting_sizes<T, d>(1, 2);
  static constexpr int rows = sizes.rows, columns = sizes.columns;
  static constexpr int shared_bytes = AttentionTile<T, d>::bytes(rows, columns, 1, 2);
  using Waves = RowsOfWaves<rows>;
};

template <class T, int d, bool capped>
class ForwardBlock {
  using Sizes = ForwardSizes<T, d>;
  using Waves = typename Sizes::Waves;
  static constexpr int rows = Waves::tiles, columns = Sizes::columns / tile_size;
  static constexpr int pitch = Sizes::pitch;

 public:
  GPU_FN ForwardBlock(const Attention<T>& a, int sample, int head, int first_row)
      : a_(a),
        sample_(sample),
        head_(head),
        first_row_(first_row),
        row_(first_row + Waves::first()),
        seen_(a.visibility(sample)),
        q_(dynamic_shared_memory<T>()),
        k_(q_ + Sizes::rows * pitch),
        v_(k_ + Sizes::columns * pitch),
        scratch_(reinterpret_cast<float*>(v_ + Sizes::columns * pitch) +
                 wave_index() * (rows * score_scratch)) {}

  GPU_FN void run(T* ctx, float* lse) {
    look_at_visibility();
    const int group = head_ / a_.queries_per_group;
    const auto q = a_.matrix(a_.q + a_.q_offset(sample_, head_), a_.q_pitch, a_.queries);
    const auto k = a_.matrix(a_.k + a_.kv_offset(sample_, group), a_.kv_pitch, seen_.keys);
    const auto v = a_.matrix(a_.v + a_.kv_offset(sample_, group), a_.kv_pitch, seen_.keys);
    Copies copies;
    const int begin = block_.begin / Sizes::columns * Sizes::columns;
    stage<Sizes::rows, d, Waves::threads>(copies, q_, q.from(first_row_, 0));
    stage<Sizes::columns, d, Waves::threads>(copies, k_, k.from(begin, 0));
    copies.commit();
    for (int key = begin; key < block_.end; key += Sizes::columns) {
      copies.template wait_for_all_but<0>();
      sync_block();  // the keys have arrived; the previous values are no longer read
      stage<Sizes::columns, d, Waves::threads>(copies, v_, v.from(key, 0));
      copies.commit();
      SumTile weights[rows][columns] = {};
      const bool sees = Waves::any() && key < wave_.end && key + Sizes::columns > wave_.begin;
      if (sees) weigh(weights, key);
      copies.template wait_for_all_but<0>();
      sync_block();  // the same with keys and values swapped
      if (key + Sizes::columns < block_.end)
        stage<Sizes::columns, d, Waves::threads>(copies, k_, k.from(key + Sizes::columns, 0));
      copies.commit();
      if (sees) add_weighted<d>(sums_, weights, v_, scratch_);
    }
    if (Waves::any()) store(ctx, lse);
  }

 private:
  // Computes the keys visible to any or all queries of the wave, and to any of the block.
  GPU_FN void look_at_visibility() {
    int least = seen_.keys, most = 0;
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int slot = 0; slot < score_row_slots; ++slot) {
        const int query = row_ + r * tile_size + score_row(slot);
        largest_[r][slot] = lowest;
        if (!seen_.begins_late() || !Waves::any() || query >= seen_.queries) continue;
        const int query_begin = seen_.begin_of(query);
        least = query_begin < least ? query_begin : least;
        most = query_begin > most ? query_begin : most;
      }
    block_.begin = wave_.begin = all_.begin = 0;
    if (seen_.begins_late()) {
      wave_.begin = -wave_max(-least);
      all_.begin = wave_max(most);
      block_.begin = -block_max<Waves::threads>(-least);
    }
    const auto end_of = [&](int query) {
      const int past = seen_.first_query + query + 1;
      return seen_.causal && past < seen_.keys ? past : seen_.keys;
    };
    all_.end = end_of(row_);
    wave_.end = row_ < seen_.queries ? end_of(row_ + rows * tile_size - 1) : 0;
    block_.end = end_of(first_row_ + Sizes::rows - 1);
  }

  // Converts scores of the tile of keys from `key` on to weights 2^(score - largest).
  GPU_FN void weigh(SumTile (&scores)[rows][columns], int key) {
    add_scores<d>(scores, q_ + Waves::first() * pitch, k_);
    if (!capped && a_.rule.alibi_heads > 0)
      add_distances<false>(scores, a_, head_, seen_.first_query + row_, key);
    if constexpr (capped) cap(scores);
    const bool whole = key >= all_.begin && key + Sizes::columns <= all_.end;
    const float scale = a_.scale * log2_of_e;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      float largest[score_row_slots], rescale[score_row_slots], added[score_row_slots];
      KeyRange sees[score_row_slots] = {};
#pragma unroll
      for (int slot = 0; slot < score_row_slots; ++slot) {
        largest[slot] = largest_[r][slot];
        if (!whole) sees[slot] = seen_.of(row_ + r * tile_size + score_row(slot));
      }
#pragma unroll
      for (int c = 0; c < columns; ++c)
#pragma unroll
        for (int i = 0; i < TileMap::sums; ++i) {
          const int slot = score_row_slot(i);
          float& score = scores[r][c].v[i];
          if constexpr (!capped) score *= scale;
          if (!whole) {
            const int at = key + c * tile_size + score_column(score_column_slot(i));
            if (at < sees[slot].begin || at >= sees[slot].end) score = never;
          }
          largest[slot] = score > largest[slot] ? score : largest[slot];
        }
#pragma unroll
      for (int slot = 0; slot < score_row_slots; ++slot) {
        largest[slot] =
            over_score_row(largest[slot], [](float a, float b) { return a > b ? a : b; });
        rescale[slot] = exp2(largest_[r][slot] - largest[slot]);
        largest_[r][slot] = largest[slot];
        added[slot] = 0;
      }
#pragma unroll
      for (int c = 0; c < columns; ++c)
#pragma unroll
        for (int i = 0; i < TileMap::sums; ++i) {
          float& weight = scores[r][c].v[i];
          weight = exp2(weight - largest[score_row_slot(i)]);
          added[score_row_slot(i)] += weight;
        }
#pragma unroll
      for (int slot = 0; slot < score_row_slots; ++slot)
        total_[r][slot] = total_[r][slot] * rescale[slot] + added[slot];
      float factor[TileMap::sum_rows];
      to_sum_rows(factor, rescale);
#pragma unroll
      for (int j = 0; j < d / tile_size; ++j)
#pragma unroll
        for (int i = 0; i < TileMap::sums; ++i) sums_[r][j].v[i] *= factor[TileMap::row_slot(i)];
    }
    if (a_.dropout.active) drop(scores, key);
  }

  // Only launched with a cap, but the branch keeps clang from merging this code with the product
  // before it, which spills at head_dim 256 on gfx1100.
  GPU_FN void cap(SumTile (&scores)[rows][columns]) const {
    if (a_.cap == 0) return;
    const Exponents<true> exponents(a_);
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int c = 0; c < columns; ++c)
#pragma unroll
        for (int i = 0; i < TileMap::sums; ++i)
          scores[r][c].v[i] = exponents.of(scores[r][c].v[i]).value;
  }

  // The sums of weights exclude dropout.
  GPU_FN void drop(SumTile (&weights)[rows][columns], int key) const {
    KeptScores<Waves::threads, rows, columns, false> kept;
    kept.draw(AttentionMask(a_.dropout, a_.rule.first_head + head_, a_.sample_id(sample_)),
              seen_.first_query + row_, key);
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int c = 0; c < columns; ++c)
#pragma unroll
        for (int i = 0; i < TileMap::sums; ++i)
          weights[r][c].v[i] *= kept.at(r * tile_size + score_row(score_row_slot(i)),
                                        c * tile_size + score_column(score_column_slot(i)))
                                    ? a_.dropout.multiplier
                                    : 0.0f;
  }

  GPU_FN void store(T* ctx, float* lse) {
    ctx += a_.ctx_offset(sample_, head_);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      float inverse[score_row_slots], factor[TileMap::sum_rows];
#pragma unroll
      for (int slot = 0; slot < score_row_slots; ++slot) {
        const float total = over_score_row(total_[r][slot], [](float a, float b) { return a + b; });
        inverse[slot] = total == 0 ? 0 : 1 / total;
        const int row = row_ + r * tile_size + score_row(slot);
        if (lse && score_column(0) == 0 && row < a_.queries)
          lse[a_.lse_offset(sample_, head_) + row] =
              total == 0 ? never : (largest_[r][slot] + log2(total)) * ln_of_2;
      }
      to_sum_rows(factor, inverse);
#pragma unroll
      for (int j = 0; j < d / tile_size; ++j)
#pragma unroll
        for (int i = 0; i < TileMap::sums; ++i) {
          const int row = row_ + r * tile_size + sum_row(TileMap::row_slot(i));
          const int column = j * tile_size + sum_column(TileMap::column_slot(i));
          if (row < a_.queries && column < a_.head_dim)
            ctx[row * a_.ctx_pitch() + column] =
                from_float<T>(sums_[r][j].v[i] * factor[TileMap::row_slot(i)]);
        }
    }
  }

  static constexpr float never = -std::numeric_limits<float>::infinity(), lowest = -1e30f;

  const Attention<T>& a_;
  const int sample_, head_;
  const int first_row_, row_;  // of the block and of this wave
  const Visibility seen_;
  T *const q_, *const k_, *const v_;  // in shared memory
  float* const scratch_;
  KeyRange block_, wave_, all_;  // visible to any query of the block, any or all of the wave
  SumTile sums_[rows][d / tile_size] = {};
  float largest_[rows][score_row_slots], total_[rows][score_row_slots] = {};
};

// Late rows see the most keys; they run first, so that the last blocks are short.
template <class T, int d, bool capped>
GPU_KERNEL((ForwardSizes<T, d>::Waves::threads))
forward_kernel(const Attention<T> a, T* ctx, float* lse) {
  constexpr int rows = ForwardSizes<T, d>::rows;
  const int heads = a.batch * a.heads(), cuts = (a.queries + rows - 1) / rows;
  const int index = static_cast<int>(block_index().x), head = index % heads;
  ForwardBlock<T, d, capped>(a, head / a.heads(), head % a.heads(),
                             (cuts - 1 - index / heads) * rows)
      .run(ctx, lse);
}

template <bool capped, class T>
void launch_forward(Queue& queue, const Attention<T>& a, T* ctx, float* lse) {
  with_padded_head_dim<capped>(a.head_dim, [&]<int d>() {
    using Sizes = ForwardSizes<T, d>;
    const std::int64_t blocks =
        std::int64_t{a.batch} * a.groups * a.queries_per_group * ceil_div(a.queries, Sizes::rows);
    launch(queue,
           {.blocks = Size{static_cast<unsigned>(blocks)},
            .threads = Sizes::Waves::threads,
            .shared_bytes = Sizes::shared_bytes},
           forward_kernel<T, d, capped>, a, ctx, lse);
  });
}

}  // namespace trireme::gpu
