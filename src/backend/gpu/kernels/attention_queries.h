// Gradients of queries: a block owns some queries of one head and walks over tiles of keys. A wave
// computes scores q k^T, gradients of the weights dctx v^T and of the scores, and
// dq += dscores k.
#pragma once

#include "backend/gpu/kernels/attention_backward.h"

namespace trireme::gpu {

template <class T, int d, Form form, Unit unit = compiled_unit>
struct QueriesSizes : RowBytes<T, d> {
  using Base = RowBytes<T, d>;
  static constexpr BlockSizes sizes = queries_sizes(unit, d, form);
  static constexpr int rows = sizes.rows, columns = sizes.columns, threads = sizes.threads;
  static constexpr bool q_held = sizes.held == 2, dctx_held = sizes.held >= 1;
  static constexpr int passing_bytes = Base::passing(sizes);
  static constexpr int own_bytes = (2 - sizes.held) * rows * Base::row_bytes;
  static constexpr int shared_bytes = passing_bytes + own_bytes + 2 * rows * 4;
};

template <class T, int d, Form form>
class QueriesBlock {
  using Sizes = QueriesSizes<T, d, form>;
  using Waves = RowsOfWaves<Sizes::rows, Sizes::threads>;
  static constexpr int rows = Waves::tiles, columns = Sizes::columns / tile_size;
  static constexpr int pitch = Sizes::pitch, tile = Sizes::columns * pitch;
  static constexpr int buffers = Sizes::sizes.buffers;
  static constexpr bool capped = form == Form::capped;
  static_assert(Waves::waves * tile_size * Sizes::row_bytes <= Sizes::shared_bytes);
  using Place = BackwardPlace<Owner::queries, Sizes::rows>;
  using Seen = decltype(std::declval<Attention<T>>().template whole_visibility_for<form>(0));

 public:
  GPU_FN QueriesBlock(const Attention<T>& a, const Gradients<T>& g, const Place& at)
      : a_(a),
        g_(g),
        sample_(at.sample),
        head_(at.head),
        first_row_(at.first),
        row_(at.first + Waves::first()),
        seen_(a.template whole_visibility_for<form>(at.sample)),
        from_(a, g, at.sample, seen_.keys),
        memory_(dynamic_shared_memory<T>()),
        statistics_(reinterpret_cast<float*>(memory_ + (Sizes::passing_bytes + Sizes::own_bytes) /
                                                           static_cast<int>(sizeof(T)))) {}

  GPU_FN void run() {
    look_at_visibility();
    load_statistics();
    load_queries();
    int buffer = 0;
    begin_tile(begin_, buffer);
    for (int key = begin_; key < end(); key += Sizes::columns) {
      const int next_buffer = buffers == 2 ? 1 - buffer : 0;
      if constexpr (buffers == 2) {
        begin_tile(key + Sizes::columns, next_buffer);
        copies_.template wait_for_all_but<1>();
      } else {
        copies_.template wait_for_all_but<0>();
      }
      sync_block();
      add_tile(key, buffer);
      sync_block();  // the buffer is no longer read
      if constexpr (buffers == 1) begin_tile(key + Sizes::columns, next_buffer);
      buffer = next_buffer;
    }
    store();
  }

 private:
  GPU_FN T* keys(int buffer) const { return memory_ + 2 * buffer * tile; }
  GPU_FN T* values(int buffer) const { return keys(buffer) + tile; }

  GPU_FN void load_queries() {
    T* const beside = memory_ + Sizes::passing_bytes / static_cast<int>(sizeof(T));
    T* const place_of_q = beside + (Sizes::dctx_held ? 0 : Sizes::rows * pitch);
    load_own<Sizes::rows, Sizes::threads, form == Form::dense>(
        copies_, dctx_, from_.dctx(head_).from(first_row_, 0), Sizes::dctx_held ? memory_ : beside,
        Waves::first());
    load_own<Sizes::rows, Sizes::threads, form == Form::dense>(
        copies_, q_, from_.q(head_).from(first_row_, 0), Sizes::q_held ? memory_ : place_of_q,
        Waves::first());
  }

  // Log-sum-exps and deltas of the block's queries.
  GPU_FN void load_statistics() {
    for (auto i = static_cast<int>(thread_index()); i < Sizes::rows; i += Sizes::threads) {
      const bool valid = first_row_ + i < a_.queries;
      const std::int64_t at = from_.per_query(head_) + (valid ? first_row_ + i : 0);
      copies_.copy_word(statistics_ + i, g_.lse + at, valid);
      copies_.copy_word(statistics_ + Sizes::rows + i, g_.delta + at, valid);
    }
  }

  // Computes the first keys that queries see.
  GPU_FN void look_at_visibility() {
    if (!seen_.begins) return;
    int least = seen_.keys, most = 0;
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int slot = 0; slot < score_row_slots; ++slot) {
        const int query = row_ + r * tile_size + score_row(slot);
        if (query >= a_.queries) continue;
        const int begin = seen_.begins[query];
        least = begin < least ? begin : least;
        most = begin > most ? begin : most;
      }
    all_begin_ = wave_max(most);
    begin_ = -block_max<Sizes::threads>(-least) / Sizes::columns * Sizes::columns;
  }
  GPU_FN int end() const {
    const int past = recomputed(first_row_) + Sizes::rows;
    return seen_.causal && past < seen_.keys ? past : seen_.keys;
  }

  GPU_FN void begin_tile(int key, int buffer) {
    key = recomputed(key);
    if (key < end()) {
      stage<Sizes::columns, d, Sizes::threads, form == Form::dense>(copies_, keys(buffer),
                                                                    from_.k(head_).from(key, 0));
      stage<Sizes::columns, d, Sizes::threads, form == Form::dense>(copies_, values(buffer),
                                                                    from_.v(head_).from(key, 0));
    }
    copies_.commit();
  }

  GPU_FN void add_tile(int key, int buffer) {
    const int row = recomputed(first_row_) + Waves::first();
    if (row >= a_.queries || (seen_.causal && key > row + rows * tile_size - 1)) return;
    SumTile weights[rows][columns] = {}, dscores[rows][columns] = {};
    add_scores<d>(weights, q_, keys(buffer));
    if (a_.template has_slopes<form>()) add_distances<false>(weights, a_, head_, row_, key);
    add_scores<d>(dscores, dctx_, values(buffer));
    // On RDNA the code for both cases would take more registers than there are.
    constexpr bool two_cases = compiled_unit != Unit::wmma || d <= 64;
    const bool whole = two_cases && key >= all_begin_ && key + Sizes::columns <= seen_.keys &&
                       row + rows * tile_size <= a_.queries &&
                       (!seen_.causal || key + Sizes::columns <= row + 1);
    if (a_.template drops<form>())
      differentiate<true, true>(weights, dscores, key);
    else if (whole)
      differentiate<false, false>(weights, dscores, key);
    else
      differentiate<false, true>(weights, dscores, key);
    add_weighted<d>(sums_, dscores, keys(buffer));
  }

  // Converts gradients of weights w = 2^(score - lse) to those of scores, w (dweight - delta),
  // times the slope of a cap; dropout applies to dweight. `scale` is applied at the end.
  template <bool drops, bool masked>
  GPU_FN void differentiate(SumTile (&weights)[rows][columns], SumTile (&dscores)[rows][columns],
                            int key) const {
    [[maybe_unused]] KeptScores<Sizes::threads, rows, columns, false> kept;
    if constexpr (drops) draw_kept(kept, a_, sample_, head_, row_, key);
    const Exponents<capped> exponents(a_);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      float lse[score_row_slots], delta[score_row_slots];
      [[maybe_unused]] KeyRange sees[score_row_slots];
#pragma unroll
      for (int slot = 0; slot < score_row_slots; ++slot) {
        const float* const at = statistics_ + Waves::first() + r * tile_size + score_row(slot);
        lse[slot] = at[0] * log2_of_e;
        delta[slot] = at[Sizes::rows];
        if constexpr (masked)
          sees[slot] =
              seen_.of(recomputed(first_row_) + Waves::first() + r * tile_size + score_row(slot));
      }
#pragma unroll
      for (int c = 0; c < columns; ++c)
#pragma unroll
        for (int i = 0; i < TileMap::sums; ++i) {
          const int slot = score_row_slot(i);
          const int column = c * tile_size + score_column(score_column_slot(i));
          const auto exponent = exponents.of(weights[r][c].v[i]);
          const float weight = exp2_flushed(exponent.value - lse[slot]);
          float& dscore = dscores[r][c].v[i];
          if constexpr (drops)
            dscore *=
                kept.at(r * tile_size + score_row(slot), column) ? a_.dropout.multiplier : 0.0f;
          dscore = weight * (dscore - delta[slot]);
          if constexpr (capped) dscore *= exponent.slope;
          if constexpr (masked) {
            if (key + column < sees[slot].begin || key + column >= sees[slot].end) dscore = 0;
          }
        }
    }
  }

  GPU_FN void store() {
    // Without a visible tile, other waves may still be loading rows that share this memory.
    sync_block();
    const Place at(a_, g_);
    const int group = at.head / a_.queries_per_group, begin = g_.first(at.part);
    const std::int64_t column =
        group * a_.q_group + std::int64_t{at.head % a_.queries_per_group} * a_.head_dim;
    const std::int64_t from = g_.row_of_zero(at.sample, at.part) * a_.q_pitch + column;
    const RowFactors<rows> factors(a_.scale);
    store_sums<d>(ResultRows<T>{g_.dq + from, a_.q_pitch, begin, begin + g_.chunk, a_.head_dim,
                                g_.sums_of(a_, at.sample, column)},
                  sums_, factors.of, at.first + Waves::first(),
                  memory_ + wave_index() * tile_size * pitch);
  }

  const Attention<T>& a_;
  const Gradients<T>& g_;
  const int sample_, head_;
  const int first_row_, row_;  // of the block and of this wave
  const Seen seen_;
  const BackwardOperands<T> from_;
  T* const memory_;  // shared: tiles of keys and values, then the block's own rows
  float* const statistics_;
  Copies copies_;
  int begin_ = 0;      // of the first tile of keys that any query of the block sees
  int all_begin_ = 0;  // the first key that all queries of the wave see
  OwnRows<T, d, rows, Sizes::q_held> q_;
  OwnRows<T, d, rows, Sizes::dctx_held> dctx_;
  SumTile sums_[rows][d / tile_size] = {};
};

template <class T, int d, Form form>
GPU_KERNEL((QueriesSizes<T, d, form>::threads))
queries_kernel(const Attention<T> a, const Gradients<T> g) {
  QueriesBlock<T, d, form>(a, g,
                           BackwardPlace<Owner::queries, QueriesSizes<T, d, form>::rows>(a, g))
      .run();
}

template <Form form, class T>
void launch_queries(Queue& queue, const Attention<T>& a, const Gradients<T>& g) {
  with_padded_head_dim<form>(a.head_dim, [&]<int d>() {
    using Sizes = QueriesSizes<T, d, form>;
    const std::int64_t blocks = std::int64_t{a.batch} * g.chunks * a.groups * a.queries_per_group *
                                backward_cuts(g.chunks, g.chunk, Sizes::rows);
    launch(queue,
           {.blocks = Size{static_cast<unsigned>(blocks)},
            .threads = Sizes::threads,
            .shared_bytes = with_unit_of_device([&]<Unit unit>() {
              return std::size_t{QueriesSizes<T, d, form, unit>::shared_bytes};
            })},
           queries_kernel<T, d, form>, a, g);
  });
}

}  // namespace trireme::gpu
