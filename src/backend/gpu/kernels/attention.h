// Common to the attention kernels: positions of rows, visible keys of a query,
// dropout, and tile sizes.
#pragma once

#include <limits>

#include "backend/gpu/kernels/dropout.h"
#include "backend/gpu/kernels/tangent.h"
#include "backend/gpu/launch.h"
#include "backend/gpu/scores.h"
#include "backend/gpu/staged.h"
#include "base/divide.h"

namespace trireme::gpu {

inline constexpr float log2_of_e = 1.44269504f, ln_of_2 = 0.693147181f;

// The keys [begin, end) visible to a query.
struct KeyRange {
  int begin, end;
};

struct Visibility {
  const std::int32_t* begins;  // of the sample's queries, or null
  int first_query;             // position of query 0
  int queries, keys;
  bool causal;
  int window;      // number of latest keys visible to a query; 0: all
  bool in_chunks;  // instead: the size of chunks, of which a query sees its own

  // Returns whether the first key may be invisible to a query.
  GPU_FN bool begins_late() const { return begins || window > 0; }
  GPU_FN int begin_of(int query) const {
    const int begin = begins ? begins[query] : 0, position = first_query + query;
    if (window == 0) return begin;
    const int newest = in_chunks ? position / window * window : position + 1 - window;
    return newest > begin ? newest : begin;
  }
  GPU_FN KeyRange of(int query) const {
    if (query >= queries) return {0, 0};
    const int past = first_query + query + 1;
    return {begin_of(query), causal && past < keys ? past : keys};
  }
};

// An attention as its kernels see it. Positions of one sample are `pitch` elements apart. If a
// context-parallel rank has two chunks of each sequence, each chunk is a sample of `queries`
// positions, and the two chunks of a sequence share its keys.
template <class T>
struct Attention {
  const T *q, *k, *v;  // of sample 0, head 0
  std::int64_t q_pitch, kv_pitch, q_sample, kv_sample, q_group, kv_group;
  int batch, queries, keys, groups, queries_per_group, head_dim;
  bool in_packs;
  bool cached;  // lengths are cache lengths before the queries; else those of samples
  const std::int32_t *first_visible, *lengths;
  DropoutSite dropout;
  int chunks;     // chunks that share the keys of a sequence: 1 or 2
  int firsts[2];  // positions of the first queries of the chunks
  AttentionRule rule;
  // Constants of the rule for the kernels: scale, soft_cap, and scale / soft_cap.
  float scale, cap, cap_part;

  GPU_FN int sequence(int sample) const { return sample / chunks; }
  GPU_FN Matrix<T> matrix(const T* data, std::int64_t pitch, int rows) const {
    return {data, pitch, rows, head_dim, in_packs};
  }
  GPU_FN Visibility visibility(int sample) const {
    const int first = sample % chunks == 0 ? firsts[0] : firsts[1];
    Visibility seen{
        first_visible ? first_visible + std::int64_t{sequence(sample)} * keys + first : nullptr,
        first,
        queries,
        keys,
        rule.causal,
        static_cast<int>(rule.window),
        rule.chunks};
    if (cached) {
      seen.first_query = lengths[sample];
      seen.keys = lengths[sample] + queries;
    } else if (lengths) {
      seen.keys = lengths[sample];
    }
    return seen;
  }
  // Avoids a select between two loads, which clang turns into one load through scratch memory.
  GPU_FN int length_of(int sample) const {
    const int length = lengths ? lengths[sample] : std::numeric_limits<int>::max();
    return length < keys ? length : keys;
  }
  // Specialization for whole sequences without cache and window, which needs fewer registers.
  GPU_FN Visibility whole_visibility(int sample) const {
    return {first_visible ? first_visible + std::int64_t{sample} * keys : nullptr,
            0,
            queries,
            length_of(sample),
            rule.causal,
            0,
            false};
  }
  GPU_FN std::int64_t q_offset(int sample, int head) const {
    return sample * q_sample + head / queries_per_group * q_group +
           std::int64_t{head % queries_per_group} * head_dim;
  }
  GPU_FN std::int64_t kv_offset(int sample, int group) const {
    return sequence(sample) * kv_sample + group * kv_group;
  }
  GPU_FN int heads() const { return groups * queries_per_group; }
  // ALiBi slope of a head: added to its unscaled scores per position that a key is ahead of the
  // query (backend/cpu/kernels/attention_view.h).
  GPU_FN float slope(int head) const {
    const auto number = static_cast<int>(rule.first_head) + head;
    int power = 1;
    while (2 * power <= static_cast<int>(rule.alibi_heads)) power *= 2;
    const float exponent = number < power ? -8.0f * static_cast<float>(number + 1)
                                          : -4.0f * static_cast<float>(2 * (number - power) + 1);
    return exp2(exponent / static_cast<float>(power)) / scale;
  }
  // Offset of a head's log-sum-exps: [sequences, groups, chunks,
  // queries per group, queries].
  GPU_FN std::int64_t lse_offset(int sample, int head) const {
    const std::int64_t group = std::int64_t{sequence(sample)} * groups + head / queries_per_group;
    return ((group * chunks + sample % chunks) * queries_per_group + head % queries_per_group) *
           queries;
  }
  GPU_FN std::int64_t sample_id(int sample) const { return dropout.sample_ids[sequence(sample)]; }
  GPU_FN std::int64_t ctx_pitch() const { return std::int64_t{heads()} * head_dim; }
  GPU_FN std::int64_t ctx_offset(int sample, int head) const {
    return sample * std::int64_t{queries} * ctx_pitch() + std::int64_t{head} * head_dim;
  }
};

template <class T>
Attention<T> attention_of(const AttentionShape& s, const T* qkv) {
  const T* const k = qkv + s.queries_per_group * s.head_dim;
  const std::int64_t columns = s.qkv_cols(), group = (s.queries_per_group + 2) * s.head_dim;
  const auto narrow = [](std::int64_t x) { return static_cast<int>(x); };
  return {.q = qkv,
          .k = k,
          .v = k + s.head_dim,
          .q_pitch = columns,
          .kv_pitch = columns,
          .q_sample = s.seq * columns,
          .kv_sample = s.seq * columns,
          .q_group = group,
          .kv_group = group,
          .batch = narrow(s.batch),
          .queries = narrow(s.seq),
          .keys = narrow(s.seq),
          .groups = narrow(s.groups),
          .queries_per_group = narrow(s.queries_per_group),
          .head_dim = narrow(s.head_dim),
          .in_packs = lies_in_packs(qkv, columns, s.head_dim),
          .cached = false,
          .first_visible = s.first_visible,
          .lengths = s.lengths,
          .dropout = DropoutSite(s.dropout),
          .chunks = 1,
          .firsts = {0, 0},
          .rule = s,
          .scale = static_cast<float>(s.scale),
          .cap = static_cast<float>(s.soft_cap),
          .cap_part = s.soft_cap > 0 ? static_cast<float>(s.scale / s.soft_cap) : 0.0f};
}

// View of a rank's two chunks of each sequence: qkv is the rank's; the caller sets the keys.
template <class T>
Attention<T> chunks_of(const AttentionShape& s, const T* qkv) {
  Attention<T> a = attention_of(s, qkv);
  a.batch *= 2;
  a.queries = static_cast<int>(s.cut.chunk);
  a.q_sample = s.cut.chunk * a.q_pitch;
  a.chunks = 2;
  for (int i = 0; i < 2; ++i) a.firsts[i] = static_cast<int>(s.cut.first[i]);
  return a;
}

// Writes ctx and, if it is not null, lse, in the order of lse_offset().
template <class T>
void run_forward(Queue&, const Attention<T>&, T* ctx, float* lse);
// Variant with soft-capped scores, called by run_forward().
template <class T>
void run_capped_forward(Queue&, const Attention<T>&, T* ctx, float* lse);

// --- sizes ---

// Shared memory available to a block on every architecture, minus a little for reductions.
inline constexpr int most_shared_bytes = 60 * 1024;

// A block keeps `tiles` tensors of `rows` rows of head_dim (at most d, padded) throughout, and
// others of `columns` rows temporarily.
template <class T, int d>
struct AttentionTile {
  static constexpr int pitch = tile_pitch<T>(d);
  static constexpr int row_bytes = pitch * static_cast<int>(sizeof(T));
  // Scratch for float scores, per tile of rows.
  static constexpr int scratch_bytes(int rows) {
    return std::is_same_v<T, float> ? rows / tile_size * score_scratch * 4 : 0;
  }
  static constexpr int bytes(int rows, int columns, int held, int passing) {
    return (rows * held + columns * passing) * row_bytes + scratch_bytes(rows);
  }
};

struct TileSizes {
  int rows, columns;
};
inline constexpr TileSizes tile_sizes[] = {{64, 64}, {64, 32}, {64, 16},
                                           {32, 32}, {32, 16}, {16, 16}};

// Columns of scores that fit in a wave's registers next to its accumulators of d columns. WMMA
// operands take twice the registers of others, and a lane has at most 256.
constexpr int most_columns(int d) {
  return !std::is_same_v<TileMap, WmmaMap> ? 64 : d <= 64 ? 32 : 16;
}

// Returns the largest size that fits, or the smallest if none does.
template <class T, int d>
constexpr TileSizes fitting_sizes(int held, int passing) {
  for (const TileSizes& s : tile_sizes)
    if (s.columns <= most_columns(d) &&
        AttentionTile<T, d>::bytes(s.rows, s.columns, held, passing) <= most_shared_bytes)
      return s;
  return {16, 16};
}

// Split of `rows` rows among the waves of a block; waves without rows only join the barriers.
template <int rows>
struct RowsOfWaves {
  static constexpr int threads = rows >= 32 ? 2 * rows : widest_wave;
  static constexpr int waves = threads / wave_width;
  static constexpr int tiles =
      rows / tile_size >= waves ? rows / tile_size / waves : 1;  // per wave
  GPU_FN static int first() { return wave_index() * tiles * tile_size; }
  GPU_FN static bool any() { return first() < rows; }
};

// Calls body.operator()<d>() with the smallest supported padded head_dim. Capped kernels exist for
// fewer sizes, since few models use caps, and those have large heads.
template <bool capped, class Body>
void with_padded_head_dim(std::int64_t head_dim, const Body& body) {
  if constexpr (!capped) {
    if (head_dim <= 16) return body.template operator()<16>();
    if (head_dim <= 32) return body.template operator()<32>();
    if (head_dim > 64 && head_dim <= 96) return body.template operator()<96>();
  }
  if (head_dim <= 64) return body.template operator()<64>();
  if (head_dim <= 128) return body.template operator()<128>();
  body.template operator()<256>();
}

// --- arithmetic ---

// scores += X Y^T over d elements.
template <int d, class T, int rows, int columns>
GPU_FN void add_scores(SumTile (&scores)[rows][columns], const T* x, const T* y) {
  constexpr int pitch = tile_pitch<T>(d);
  x += recomputed(0);
  y += recomputed(0);
#pragma unroll
  for (int step = 0; step < d; step += tile_size) {
    ScoreRows<T> a[rows];
    ScoreColumns<T> b[columns];
#pragma unroll
    for (int r = 0; r < rows; ++r) a[r] = load_score_rows(x + r * tile_size * pitch + step, pitch);
#pragma unroll
    for (int c = 0; c < columns; ++c)
      b[c] = load_score_columns(y + c * tile_size * pitch + step, pitch);
    multiply_scores<T>(scores, a, b);
  }
}

// Converts query-key products to base-2 exponents. Without a cap it needs no extra register.
template <bool capped>
class Exponents {
 public:
  struct Exponent {
    float value, slope;  // slope: derivative of the cap
  };

  template <class T>
  GPU_FN explicit Exponents(const Attention<T>& a)
      : factor_(capped ? a.cap_part : a.scale * log2_of_e), cap_(a.cap * log2_of_e) {}

  GPU_FN Exponent of(float product) const {
    if constexpr (capped) {
      const float part = tangent(product * factor_);
      return {cap_ * part, 1.0f - part * part};
    } else {
      return {product * factor_, 1.0f};
    }
  }

 private:
  float factor_, cap_;
};

// Adds slope x (key - query) to a tile's scores, given its upper left row and column. Recomputed
// per tile: values kept in registers would cost them even without ALiBi.
template <bool keys_are_rows, class T, int rows, int columns>
GPU_FN void add_distances(SumTile (&scores)[rows][columns], const Attention<T>& a, int head,
                          int row, int column) {
  const float slope = a.slope(recomputed(head));
  row = recomputed(row);
  column = recomputed(column);
#pragma unroll
  for (int r = 0; r < rows; ++r)
#pragma unroll
    for (int c = 0; c < columns; ++c)
#pragma unroll
      for (int i = 0; i < TileMap::sums; ++i) {
        const int ahead = column + c * tile_size + score_column(score_column_slot(i)) -
                          (row + r * tile_size + score_row(score_row_slot(i)));
        scores[r][c].v[i] += slope * static_cast<float>(keys_are_rows ? -ahead : ahead);
      }
}

// sums += scores Z, where Z is [16 * columns, d].
template <int d, class T, int rows, int columns>
GPU_FN void add_weighted(SumTile (&sums)[rows][d / tile_size],
                         const SumTile (&scores)[rows][columns], const T* z, float* scratch) {
  constexpr int pitch = tile_pitch<T>(d);
  z += recomputed(0);
#pragma unroll
  for (int c = 0; c < columns; ++c) {
    LeftTile<T> left[rows];
    as_left(left, scores, c, scratch);
    RightTile<T> right[d / tile_size];
#pragma unroll
    for (int j = 0; j < d / tile_size; ++j)
      right[j] = load_right(z + c * tile_size * pitch + j * tile_size, pitch);
    multiply(sums, left, right);
  }
}

// Dropout mask of a wave's scores: one draw covers eight keys of a query, unlike the lanes' layout,
// so each lane draws a part and all read the mask from shared memory.
template <int threads, int rows, int columns, bool keys_are_rows>
class KeptScores {
 public:
  static constexpr int queries = (keys_are_rows ? columns : rows) * tile_size;
  static constexpr int eighths = (keys_are_rows ? rows : columns) * 2;

  // Draws for the tile with this first query and key. All lanes of the wave participate.
  GPU_FN void draw(const AttentionMask& mask, int query, int key) {
    sync_wave();  // the previous draws have been read
#pragma unroll 1
    for (int i = lane(); i < queries * eighths; i += wave_width)
      bits()[i] = static_cast<std::uint8_t>(mask.kept(query + i % queries, key / 8 + i / queries));
    sync_wave();
  }
  // Returns whether to keep the score of query and key, relative to the tile.
  GPU_FN bool at(int query, int key) const {
    return bits()[key / 8 * queries + query] >> key % 8 & 1;
  }

 private:
  struct Bits {
    std::uint8_t of_wave[threads / narrowest_wave][queries * eighths];
  };
  GPU_FN static std::uint8_t* bits() {
    return shared_memory<Bits>().of_wave[wave_index()];
  }
};

}  // namespace trireme::gpu
