// Gradients of keys and values: a block owns some keys of a group and walks over the query tiles of
// the group's heads, head by head.
//
// Its waves are two teams that own the same keys, so that a wave has the registers to hold two
// tiles of rows: team 0 computes scores k q^T, their weights, and dv += weights dctx; team 1
// computes the weights' gradients v dctx^T, those of the scores, and dk += dscores q. Each thread
// of team 0 publishes its weights in shared memory for the one of team 1 that has the same
// elements.
#pragma once

#include "backend/gpu/kernels/attention_backward.h"

namespace trireme::gpu {

template <class T, int d, Form form, Unit unit = compiled_unit>
struct KeysSizes : RowBytes<T, d> {
  using Base = RowBytes<T, d>;
  static constexpr BlockSizes sizes = keys_sizes(unit, d, form);
  static constexpr int rows = sizes.rows, columns = sizes.columns, threads = sizes.threads;
  static constexpr bool held = sizes.held == 1;
  static constexpr int passing_bytes = Base::passing(sizes);
  static constexpr int own_bytes = held ? 0 : 2 * rows * Base::row_bytes;
  static constexpr int weight_bytes = rows * columns * 4;
  static constexpr int statistics_bytes = sizes.buffers * 2 * columns * 4;
  static constexpr int shared_bytes = passing_bytes + own_bytes + weight_bytes + statistics_bytes;
};

template <class T, int d, Form form>
class KeysBlock {
  using Sizes = KeysSizes<T, d, form>;
  using Waves = RowsOfWaves<Sizes::rows, Sizes::threads / 2>;
  static constexpr int rows = Waves::tiles, columns = Sizes::columns / tile_size;
  static constexpr int pitch = Sizes::pitch, tile = Sizes::columns * pitch;
  static constexpr int buffers = Sizes::sizes.buffers;
  static constexpr bool capped = form == Form::capped;
  static_assert(Waves::waves * tile_size * Sizes::row_bytes <= Sizes::shared_bytes);
  using Place = BackwardPlace<Owner::keys, Sizes::rows>;
  using Seen = decltype(std::declval<Attention<T>>().template whole_visibility_for<form>(0));

 public:
  GPU_FN KeysBlock(const Attention<T>& a, const Gradients<T>& g, const Place& at)
      : a_(a),
        g_(g),
        sample_(at.sample),
        first_head_(at.head),
        first_row_(at.first),
        row_(at.first + Waves::first()),
        first_team_(wave_index() < Waves::waves),
        seen_(a.template whole_visibility_for<form>(at.sample)),
        from_(a, g, at.sample, seen_.keys),
        memory_(dynamic_shared_memory<T>()),
        weights_(reinterpret_cast<float*>(memory_ + (Sizes::passing_bytes + Sizes::own_bytes) /
                                                        static_cast<int>(sizeof(T)))),
        statistics_(weights_ + Sizes::rows * Sizes::columns) {}

  GPU_FN void run() {
    load_keys();
    begin_ = seen_.causal ? first_row_ / Sizes::columns * Sizes::columns : 0;
    end_ = first_row_ < seen_.keys ? a_.queries : 0;
    Step now = next_seen({first_head_, begin_});
    int buffer = 0;
    begin_tile(now, buffer);
    while (now.head < last_head()) {
      const Step next = next_seen({now.head, now.first + Sizes::columns});
      const int next_buffer = (buffer + 1) % buffers;
      if constexpr (buffers == 2) {
        begin_tile(next, next_buffer);
        copies_.template wait_for_all_but<1>();
      } else {
        copies_.template wait_for_all_but<0>();
      }
      sync_block();
      add_tile(now, buffer);
      sync_block();  // the buffer is no longer read
      if constexpr (buffers == 1) begin_tile(next, next_buffer);
      now = next;
      buffer = next_buffer;
    }
    store();
  }

 private:
  // A tile of queries of a head.
  struct Step {
    int head, first;
  };

  GPU_FN int last_head() const { return first_head_ + a_.queries_per_group; }
  GPU_FN T* other(int buffer, bool dctx) const {
    return memory_ + (2 * buffer + (dctx ? 1 : 0)) * tile;
  }
  GPU_FN float* lse(int buffer) const { return statistics_ + 2 * buffer * Sizes::columns; }
  GPU_FN float* delta(int buffer) const { return lse(buffer) + Sizes::columns; }

  GPU_FN void load_keys() {
#pragma unroll
    for (int team = 0; team < 2; ++team) {
      const auto all = team == 0 ? from_.k(first_head_) : from_.v(first_head_);
      T* const to = Sizes::held ? memory_
                                : memory_ + Sizes::passing_bytes / static_cast<int>(sizeof(T)) +
                                      team * Sizes::rows * pitch;
      load_own<Sizes::rows, Sizes::threads, form == Form::dense>(
          copies_, own_, all.from(first_row_, 0), to, Waves::first(), first_team_ == (team == 0));
    }
  }

  // Returns the first tile from `step` on with a visible query-key pair.
  GPU_FN Step next_seen(Step step) const {
    for (; step.head < last_head(); ++step.head, step.first = begin_)
      for (; step.first < end_; step.first += Sizes::columns)
        if (!seen_.begins || any_query_sees(step.first)) return step;
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

  GPU_FN void begin_tile(const Step& step, int buffer) {
    if (step.head < last_head()) {
      stage<Sizes::columns, d, Sizes::threads, form == Form::dense>(
          copies_, other(buffer, false), from_.q(step.head).from(step.first, 0));
      stage<Sizes::columns, d, Sizes::threads, form == Form::dense>(
          copies_, other(buffer, true), from_.dctx(step.head).from(step.first, 0));
      const auto i = static_cast<int>(thread_index());
      if (i < Sizes::columns) {
        const bool valid = step.first + i < a_.queries;
        const std::int64_t at = from_.per_query(step.head) + (valid ? step.first + i : 0);
        copies_.copy_word(lse(buffer) + i, g_.lse + at, valid);
        copies_.copy_word(delta(buffer) + i, g_.delta + at, valid);
      }
    }
    copies_.commit();
  }

  GPU_FN void add_tile(const Step& step, int buffer) {
    const bool sees = row_ < seen_.keys && (!seen_.causal || step.first + Sizes::columns > row_);
    SumTile scores[rows][columns] = {};
    if (sees) {
      add_scores<d>(scores, own_, other(buffer, !first_team_));
      if (first_team_) weigh(scores, step, lse(buffer));
    }
    sync_block();  // the weights are in shared memory
    if (!sees) return;
    if (!first_team_) differentiate(scores, delta(buffer));
    add_weighted<d>(sums_, scores, other(buffer, first_team_));
  }

  // --- team 0 ---

  GPU_FN void weigh(SumTile (&scores)[rows][columns], const Step& step, const float* lse) const {
    if (a_.template has_slopes<form>())
      add_distances<true>(scores, a_, step.head, row_, step.first);
    const bool whole = !seen_.begins && row_ + rows * tile_size <= seen_.keys &&
                       step.first + Sizes::columns <= a_.queries &&
                       (!seen_.causal || step.first >= row_ + rows * tile_size - 1);
    if (a_.template drops<form>())
      weigh<true, true>(scores, step, lse);
    else if (whole)
      weigh<false, false>(scores, step, lse);
    else
      weigh<false, true>(scores, step, lse);
  }
  // Converts scores to weights w = 2^(score - lse), which dropout scales. Publishes for team 1 the
  // factor of the scores' gradients, w times the slope of a cap; it is negative if the weight is
  // dropped.
  template <bool drops, bool masked>
  GPU_FN void weigh(SumTile (&scores)[rows][columns], const Step& step, const float* lse) const {
    [[maybe_unused]] KeptScores<Sizes::threads, rows, columns, true> kept;
    if constexpr (drops) draw_kept(kept, a_, sample_, step.head, step.first, row_);
    const Exponents<capped> exponents(a_);
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      float of_query[score_column_slots];
      [[maybe_unused]] KeyRange sees[score_column_slots];
#pragma unroll
      for (int slot = 0; slot < score_column_slots; ++slot) {
        const int query = c * tile_size + score_column(slot);
        of_query[slot] = lse[query] * log2_of_e;
        if constexpr (masked) sees[slot] = seen_.of(step.first + query);
      }
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        SumTile factors;
#pragma unroll
        for (int i = 0; i < TileMap::sums; ++i) {
          const int slot = score_column_slot(i), row = r * tile_size + score_row(score_row_slot(i));
          float& weight = scores[r][c].v[i];
          const auto exponent = exponents.of(weight);
          weight = exp2_flushed(exponent.value - of_query[slot]);
          if constexpr (masked) {
            if (row_ + row < sees[slot].begin || row_ + row >= sees[slot].end) weight = 0;
          }
          factors.v[i] = capped ? weight * exponent.slope : weight;
          if constexpr (drops) {
            const bool keeps = kept.at(row, c * tile_size + score_column(slot));
            if (!keeps) factors.v[i] = -factors.v[i];
            weight = keeps ? weight * a_.dropout.multiplier : 0.0f;
          }
        }
        publish(factors, r * columns + c);
      }
    }
  }

  // --- from team 0 to team 1: four elements per lane at a time, next to those of other lanes ---

  static constexpr int quarters = TileMap::sums / 4;

  GPU_FN float* place(int of_tile, int quarter) const {
    const int tiles = wave_index() % Waves::waves * rows * columns + of_tile;
    return weights_ + ((tiles * quarters + quarter) * wave_width + lane()) * 4;
  }
  GPU_FN void publish(const SumTile& factors, int of_tile) const {
#pragma unroll
    for (int q = 0; q < quarters; ++q)
      store_pack(place(of_tile, q), Pack<float, 4>{factors.v[4 * q], factors.v[4 * q + 1],
                                                   factors.v[4 * q + 2], factors.v[4 * q + 3]});
  }
  GPU_FN SumTile published(int of_tile) const {
    SumTile factors;
#pragma unroll
    for (int q = 0; q < quarters; ++q) {
      const Pack<float, 4> pack = load_pack(place(of_tile, q));
#pragma unroll
      for (int i = 0; i < 4; ++i) factors.v[4 * q + i] = pack.v[i];
    }
    return factors;
  }

  // --- team 1 ---

  // Converts gradients of weights to those of scores, w (dweight - delta), times the slope of a
  // cap; dropout applies to dweight. `scale` is applied at the end.
  GPU_FN void differentiate(SumTile (&dweights)[rows][columns], const float* delta) const {
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      float of_query[score_column_slots];
#pragma unroll
      for (int slot = 0; slot < score_column_slots; ++slot)
        of_query[slot] = delta[c * tile_size + score_column(slot)];
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const SumTile factors = published(r * columns + c);
#pragma unroll
        for (int i = 0; i < TileMap::sums; ++i) {
          float& gradient = dweights[r][c].v[i];
          const float factor = factors.v[i];
          if (a_.template drops<form>()) gradient *= factor < 0 ? 0.0f : a_.dropout.multiplier;
          const float magnitude = factor < 0 ? -factor : factor;
          // A pair that is not seen stays zero, whatever the other values are.
          gradient = factor == 0 ? 0.0f : magnitude * (gradient - of_query[score_column_slot(i)]);
        }
      }
    }
  }

  GPU_FN void store() {
    // Without a visible tile, other waves may still be loading rows that share this memory.
    sync_block();
    const Place at(a_, g_);
    const int group = at.head / a_.queries_per_group, begin = g_.first(at.part);
    const std::int64_t column = group * a_.kv_group;
    const std::int64_t from = g_.row_of_zero(at.sample, at.part) * a_.kv_pitch + column;
    const RowFactors<rows> factors(first_team_ ? 1.0f : a_.scale);
    const std::int64_t of_team = a_.k - a_.q + (first_team_ ? a_.head_dim : 0);
    const ResultRows<T> results{(first_team_ ? g_.dv : g_.dk) + from,
                                a_.kv_pitch,
                                begin,
                                begin + g_.chunk,
                                a_.head_dim,
                                g_.sums_of(a_, at.sample, of_team + column)};
    // One team after the other, since their rows share the memory.
#pragma unroll
    for (int team = 0; team < 2; ++team) {
      if (first_team_ == (team == 0))
        store_sums<d>(results, sums_, factors.of, at.first + Waves::first(),
                      memory_ + wave_index() % Waves::waves * tile_size * pitch);
      sync_block();
    }
  }

  const Attention<T>& a_;
  const Gradients<T>& g_;
  const int sample_, first_head_;
  const int first_row_, row_;  // of the block and of this wave
  const bool first_team_;
  const Seen seen_;
  const BackwardOperands<T> from_;
  T* const memory_;  // shared: tiles of the other side, and the block's own rows
  float *const weights_, *const statistics_;
  Copies copies_;
  int begin_ = 0, end_ = 0;  // range of queries
  OwnRows<T, d, rows, Sizes::held> own_;
  SumTile sums_[rows][d / tile_size] = {};  // of dv or dk
};

template <class T, int d, Form form>
GPU_KERNEL((KeysSizes<T, d, form>::threads))
keys_kernel(const Attention<T> a, const Gradients<T> g) {
  KeysBlock<T, d, form>(a, g, BackwardPlace<Owner::keys, KeysSizes<T, d, form>::rows>(a, g)).run();
}

template <Form form, class T>
void launch_keys(Queue& queue, const Attention<T>& a, const Gradients<T>& g) {
  with_padded_head_dim<form>(a.head_dim, [&]<int d>() {
    using Sizes = KeysSizes<T, d, form>;
    const std::int64_t blocks =
        std::int64_t{a.batch} * g.chunks * a.groups * backward_cuts(g.chunks, g.chunk, Sizes::rows);
    launch(queue,
           {.blocks = Size{static_cast<unsigned>(blocks)},
            .threads = Sizes::threads,
            .shared_bytes = with_unit_of_device([&]<Unit unit>() {
              return std::size_t{KeysSizes<T, d, form, unit>::shared_bytes};
            })},
           keys_kernel<T, d, form>, a, g);
  });
}

}  // namespace trireme::gpu
