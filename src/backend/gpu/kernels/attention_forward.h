// Attention forward with an online softmax (Dao 2023, arXiv:2307.08691): a block owns some queries
// of one head and walks over tiles of keys. Values are copied while scores are computed, and the
// next keys while values are accumulated.
//
// A query's result depends only on its own row and its visible keys, in an order fixed by their
// positions: tiles without a visible key change nothing.
#pragma once

#include "backend/gpu/kernels/attention_tiles.h"

namespace trireme::gpu {

template <class T, int d, Form form, Unit unit = compiled_unit>
struct ForwardSizes : RowBytes<T, d> {
  static constexpr BlockSizes sizes = forward_sizes(unit, d, form);
  static constexpr int rows = sizes.rows, columns = sizes.columns, threads = sizes.threads;
  static constexpr bool held = sizes.held == 1;
  static constexpr int shared_bytes =
      RowBytes<T, d>::passing(sizes) + (held ? 0 : rows * RowBytes<T, d>::row_bytes);
};

// The rows of a block. Late rows see the most keys; they run first, so that the last blocks are
// short. Computed again where results are stored, as in the backward pass.
template <int rows>
struct ForwardPlace {
  int sample, head, first;

  template <class T>
  GPU_FN explicit ForwardPlace(const Attention<T>& a) {
    const int heads = a.batch * a.heads(), cuts = (a.queries + rows - 1) / rows;
    const int index = recomputed(static_cast<int>(block_index().x)), of_all = index % heads;
    sample = of_all / a.heads();
    head = of_all % a.heads();
    first = (cuts - 1 - index / heads) * rows;
  }
};

template <class T, int d, Form form>
class ForwardBlock {
  using Sizes = ForwardSizes<T, d, form>;
  using Waves = RowsOfWaves<Sizes::rows, Sizes::threads>;
  static constexpr int rows = Waves::tiles, columns = Sizes::columns / tile_size;
  static constexpr int pitch = Sizes::pitch;
  static constexpr bool capped = form == Form::capped;
  static_assert(Waves::waves * tile_size * Sizes::row_bytes <= Sizes::shared_bytes);

  using Place = ForwardPlace<Sizes::rows>;
  using Seen = decltype(std::declval<Attention<T>>().template visibility_for<form>(0));

 public:
  GPU_FN ForwardBlock(const Attention<T>& a, const Place& at)
      : a_(a),
        sample_(at.sample),
        head_(at.head),
        first_row_(at.first),
        row_(at.first + Waves::first()),
        seen_(a.template visibility_for<form>(at.sample)),
        k_(dynamic_shared_memory<T>()),
        v_(k_ + Sizes::columns * pitch) {}

  GPU_FN void run(T* ctx, float* lse) {
    look_at_visibility();
    load_queries();
    const int group = head_ / a_.queries_per_group;
    const auto k = a_.matrix(a_.k + a_.kv_offset(sample_, group), a_.kv_pitch, seen_.keys);
    const auto v = a_.matrix(a_.v + a_.kv_offset(sample_, group), a_.kv_pitch, seen_.keys);
    const int begin = block_begin_ / Sizes::columns * Sizes::columns;
    const auto end = [&] { return end_of(recomputed(first_row_) + Sizes::rows - 1); };
    stage<Sizes::columns, d, Sizes::threads, form == Form::dense>(copies_, k_, k.from(begin, 0));
    copies_.commit();
    for (int key = begin; key < end(); key += Sizes::columns) {
      copies_.template wait_for_all_but<0>();
      sync_block();  // the keys have arrived; the previous values are no longer read
      stage<Sizes::columns, d, Sizes::threads, form == Form::dense>(copies_, v_, v.from(key, 0));
      copies_.commit();
      RoundedScores<T, rows, columns> weights;
      const bool sees = row_ < seen_.queries && key < end_of(recomputed(last_row())) &&
                        key + Sizes::columns > begin_;
      if (sees) weigh(weights, key);
      copies_.template wait_for_all_but<0>();
      sync_block();  // the same with keys and values swapped
      if (key + Sizes::columns < end())
        stage<Sizes::columns, d, Sizes::threads, form == Form::dense>(
            copies_, k_, k.from(key + Sizes::columns, 0));
      copies_.commit();
      if (sees) add_weighted<d>(sums_, weights, v_);
    }
    sync_block();  // the last values are no longer read
    store(ctx, lse);
  }

 private:
  GPU_FN void load_queries() {
    const auto q = a_.matrix(a_.q + a_.q_offset(sample_, head_), a_.q_pitch, a_.queries);
    T* const to = Sizes::held ? k_ : v_ + Sizes::columns * pitch;
    load_own<Sizes::rows, Sizes::threads, form == Form::dense>(copies_, q_, q.from(first_row_, 0),
                                                               to, Waves::first());
  }

  // Factor of scores to exponents of 2.
  GPU_FN float scale() const { return capped ? 1.0f : a_.exponent_scale; }
  GPU_FN int last_row() const { return row_ + rows * tile_size - 1; }
  GPU_FN int end_of(int query) const {
    const int past = seen_.first_query + query + 1;
    return seen_.causal && past < seen_.keys ? past : seen_.keys;
  }
  // Computes the first keys visible to any or all queries of the wave, and to any of the block.
  GPU_FN void look_at_visibility() {
    int least = seen_.keys, most = 0;
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int slot = 0; slot < score_row_slots; ++slot) {
        const int query = row_ + r * tile_size + score_row(slot);
        largest_[r][slot] = lowest;
        if (!seen_.begins_late() || query >= seen_.queries) continue;
        const int query_begin = seen_.begin_of(query);
        least = query_begin < least ? query_begin : least;
        most = query_begin > most ? query_begin : most;
      }
    block_begin_ = begin_ = all_begin_ = 0;
    if (seen_.begins_late()) {
      begin_ = -wave_max(-least);
      all_begin_ = wave_max(most);
      block_begin_ = -block_max<Sizes::threads>(-least);
    }
  }

  // Converts scores of the tile of keys from `key` on to weights 2^(scale * (score - largest)).
  GPU_FN void weigh(RoundedScores<T, rows, columns>& weights, int key) {
    SumTile scores[rows][columns] = {};
    add_scores<d>(scores, q_, k_);
    if (a_.template has_slopes<form>())
      add_distances<false>(scores, a_, head_, seen_.first_query + row_, key);
    if constexpr (capped) cap(scores);
    if (key < all_begin_ || key + Sizes::columns > end_of(recomputed(row_))) mask(scores, key);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      float largest[score_row_slots], rescale[score_row_slots], added[score_row_slots];
#pragma unroll
      for (int slot = 0; slot < score_row_slots; ++slot) largest[slot] = largest_[r][slot];
#pragma unroll
      for (int c = 0; c < columns; ++c)
#pragma unroll
        for (int i = 0; i < TileMap::sums; ++i) {
          const float score = scores[r][c].v[i];
          float& of_row = largest[score_row_slot(i)];
          of_row = score > of_row ? score : of_row;
        }
#pragma unroll
      for (int slot = 0; slot < score_row_slots; ++slot) {
        largest[slot] =
            over_score_row(largest[slot], [](float a, float b) { return a > b ? a : b; });
        rescale[slot] = exp2_flushed((largest_[r][slot] - largest[slot]) * scale());
        largest_[r][slot] = largest[slot];
        largest[slot] *= scale();
        added[slot] = 0;
      }
#pragma unroll
      for (int c = 0; c < columns; ++c)
#pragma unroll
        for (int i = 0; i < TileMap::sums; ++i) {
          float& weight = scores[r][c].v[i];
          weight = exp2_flushed(weight * scale() - largest[score_row_slot(i)]);
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
    if (a_.template drops<form>()) drop(scores, key);
    weights.set(scores);
  }

  // Apart from weigh(), so that tiles of which all is visible, nearly all of them, compare nothing.
  GPU_FN void mask(SumTile (&scores)[rows][columns], int key) const {
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int slot = 0; slot < score_row_slots; ++slot) {
        const KeyRange sees = seen_.of(row_ + r * tile_size + score_row(slot));
#pragma unroll
        for (int c = 0; c < columns; ++c)
#pragma unroll
          for (int i = 0; i < TileMap::sums; ++i) {
            const int at = key + c * tile_size + score_column(score_column_slot(i));
            if (score_row_slot(i) == slot && (at < sees.begin || at >= sees.end))
              scores[r][c].v[i] = never;
          }
      }
  }

  // Only launched with a cap, but the branch keeps clang from merging this code with the product
  // before it, which spills at head_dim 256 on gfx1100.
  GPU_FN void cap(SumTile (&scores)[rows][columns]) const {
    if (a_.cap == 0) return;
    const Exponents<true> exponents(a_);
    each_score(scores, [&](float& score, int, int) { score = exponents.of(score).value; });
  }

  // The sums of weights exclude dropout.
  GPU_FN void drop(SumTile (&weights)[rows][columns], int key) const {
    KeptScores<Sizes::threads, rows, columns, false> kept;
    kept.draw(AttentionMask(a_.dropout, a_.rule.first_head + head_, a_.sample_id(sample_)),
              seen_.first_query + row_, key);
    each_score(weights, [&](float& weight, int row, int column) {
      weight *= kept.at(row, column) ? a_.dropout.multiplier : 0.0f;
    });
  }

  GPU_FN void store(T* ctx, float* lse) {
    const Place at(a_);
    const int first = at.first + Waves::first();
    float factors[rows][TileMap::sum_rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      float inverse[score_row_slots];
#pragma unroll
      for (int slot = 0; slot < score_row_slots; ++slot) {
        const float total = over_score_row(total_[r][slot], [](float a, float b) { return a + b; });
        inverse[slot] = total == 0 ? 0 : 1 / total;
        const int row = first + r * tile_size + score_row(slot);
        if (lse && score_column(0) == 0 && row < a_.queries)
          lse[a_.lse_offset(at.sample, at.head) + row] =
              total == 0 ? never : (largest_[r][slot] * scale() + log2(total)) * ln_of_2;
      }
      to_sum_rows(factors[r], inverse);
    }
    store_sums<d>(ResultRows<T>{ctx + a_.ctx_offset(at.sample, at.head), a_.ctx_pitch(), 0,
                                a_.queries, a_.head_dim},
                  sums_, factors, first, k_ + wave_index() * tile_size * pitch);
  }

  static constexpr float never = -std::numeric_limits<float>::infinity(), lowest = -1e30f;

  const Attention<T>& a_;
  const int sample_, head_;
  const int first_row_, row_;  // of the block and of this wave
  const Seen seen_;
  T *const k_, *const v_;  // in shared memory
  Copies copies_;
  OwnRows<T, d, rows, Sizes::held> q_;
  int block_begin_, begin_,
      all_begin_;  // first visible to any of the block, any or all of the wave
  SumTile sums_[rows][d / tile_size] = {};
  float largest_[rows][score_row_slots], total_[rows][score_row_slots] = {};
};

template <class T, int d, Form form>
GPU_KERNEL((ForwardSizes<T, d, form>::threads))
forward_kernel(const Attention<T> a, T* ctx, float* lse) {
  ForwardBlock<T, d, form>(a, ForwardPlace<ForwardSizes<T, d, form>::rows>(a)).run(ctx, lse);
}

template <Form form, class T>
void launch_forward(Queue& queue, const Attention<T>& a, T* ctx, float* lse) {
  with_padded_head_dim<form>(a.head_dim, [&]<int d>() {
    using Sizes = ForwardSizes<T, d, form>;
    const std::int64_t blocks =
        std::int64_t{a.batch} * a.groups * a.queries_per_group * ceil_div(a.queries, Sizes::rows);
    launch(queue,
           {.blocks = Size{static_cast<unsigned>(blocks)},
            .threads = Sizes::threads,
            .shared_bytes = with_unit_of_device([&]<Unit unit>() {
              return std::size_t{ForwardSizes<T, d, form, unit>::shared_bytes};
            })},
           forward_kernel<T, d, form>, a, ctx, lse);
  });
}

// Variant with soft-capped scores, compiled in a separate file.
template <class T>
void run_capped_forward(Queue&, const Attention<T>&, T* ctx, float* lse);

}  // namespace trireme::gpu
