// Ring attention (Liu et al. 2023): the keys and values of all ranks circulate past a rank's two
// query chunks of each sequence.
//
// A query chunk and a key chunk, fully visible to it or, for the same chunk, causally, form a small
// attention: the attention kernels compute it with sequences of a chunk's length. The result, in
// the storage type, is merged in fp32 with those of other chunks by their log-sum-exps: weights are
// at most one, so the error does not grow with the number of chunks. Positions count from the
// chunk's start: document starts shift accordingly; an ALiBi slope adds the same to all scores of a
// pair, which only affects its log-sum-exp; and dropout is given the chunks' positions, so that it
// drops the same elements as in whole sequences.
#include "backend/gpu/kernels/ring.h"

#include <limits>

#include "backend/gpu/kernels/attention.h"
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"
#include "backend/gpu/ring_scratch.h"

namespace trireme::gpu {
namespace {

constexpr int threads = 256, lanes_of_row = 8;

// A query chunk, one of the rank's two, and one of the circulating key chunks.
struct Pair {
  int queries, keys;
  int ahead;         // first key position minus first query position; never positive
  bool comes_first;  // first pair of these queries
};

// Rows of a pair, and the corresponding rows of the rank's buffers.
struct RingRows {
  int batch, chunk, groups, queries_per_group, head_dim;

  explicit RingRows(const AttentionShape& s)
      : batch(static_cast<int>(s.batch)),
        chunk(static_cast<int>(s.cut.chunk)),
        groups(static_cast<int>(s.groups)),
        queries_per_group(static_cast<int>(s.queries_per_group)),
        head_dim(static_cast<int>(s.head_dim)) {}

  GPU_FN int heads() const { return groups * queries_per_group; }
  GPU_FN std::int64_t statistics() const { return std::int64_t{batch} * heads() * chunk; }
  // Row of position i of a chunk in the rank's buffers.
  GPU_FN std::int64_t own_row(std::int64_t sample, int half, std::int64_t i) const {
    return (2 * sample + half) * chunk + i;
  }
};

// A per-query, per-head value; a pair has [batch, heads, chunk] of them.
struct Statistic {
  std::int64_t sample;
  int head, position;
  std::int64_t own;  // index in the rank's: [batch, groups, 2, queries per group, chunk]

  GPU_FN Statistic(const RingRows& r, int half, std::int64_t index)
      : sample(index / r.chunk / r.heads()),
        head(static_cast<int>(index / r.chunk % r.heads())),
        position(static_cast<int>(index % r.chunk)) {
    const std::int64_t group = sample * r.groups + head / r.queries_per_group;
    own = ((2 * group + half) * r.queries_per_group + head % r.queries_per_group) * r.chunk +
          position;
  }
};

// ALiBi term of a pair's scaled scores, from the head's slope and the chunks' distance.
GPU_FN float distance_score(const Attention<float>& alibi, const Pair& pair, int head) {
  return alibi.rule.alibi_heads == 0
             ? 0.0f
             : alibi.slope(head) * alibi.scale * static_cast<float>(pair.ahead);
}

// --- forward ---

// Merges the pair's sums and lse into those of all previous keys.
template <class T>
GPU_KERNEL(threads)
merge_kernel(const RingRows r, const Pair pair, const Attention<float> alibi, float* sums,
             float* lse, const T* ctx, const float* pair_lse, bool aligned) {
  const std::int64_t index =
      (std::int64_t{block_index().x} * threads + thread_index()) / lanes_of_row;
  const bool any = index < r.statistics();
  const Statistic at(r, pair.queries, any ? index : 0);
  constexpr float none = -std::numeric_limits<float>::infinity();
  float before = none, added = none;
  if (any) {
    if (!pair.comes_first) before = lse[at.own];
    added = pair_lse[index] + distance_score(alibi, pair, at.head);
  }
  sync_wave();  // all lanes of the row have read it
  if (!any) return;
  const float largest = before > added ? before : added;
  const bool sees = largest > none;
  const float total = sees ? largest + log(exp(before - largest) + exp(added - largest)) : none;
  const float keeps = sees ? exp(before - total) : 0.0f, adds = sees ? exp(added - total) : 0.0f;
  if (lane() % lanes_of_row == 0) lse[at.own] = total;
  const std::int64_t pitch = std::int64_t{r.heads()} * r.head_dim;
  const std::int64_t column = std::int64_t{at.head} * r.head_dim;
  float* const to = sums + r.own_row(at.sample, pair.queries, at.position) * pitch + column;
  const T* const from = ctx + (at.sample * r.chunk + at.position) * pitch + column;
  for (int c = 8 * (lane() % lanes_of_row); c < r.head_dim; c += 8 * lanes_of_row) {
    const Columns columns = columns_at(c, r.head_dim, aligned);
    const Eight more = load(from, columns);
    store(to, columns,
          pair.comes_first ? each([=](float x) { return adds * x; }, more)
                           : each([=](float s, float x) { return keeps * s + adds * x; },
                                  load(to, columns), more));
  }
}

// First visible key of the pair for each query.
GPU_KERNEL(threads)
first_visible_kernel(const RingRows r, std::int64_t seq, int query, int key, std::int32_t* pair,
                     const std::int32_t* whole) {
  for_each(std::int64_t{r.batch} * r.chunk, [=](std::int64_t n) {
    const int first = whole[n / r.chunk * seq + query + n % r.chunk] - key;
    pair[n] = first < 0 ? 0 : first < r.chunk ? first : r.chunk;
  });
}

// --- backward ---

GPU_KERNEL(threads)
statistics_kernel(const RingRows r, const Pair pair, const Attention<float> alibi, float* pair_lse,
                  float* pair_delta, const float* lse, const float* delta) {
  for_each(r.statistics(), [=](std::int64_t index) {
    const Statistic at(r, pair.queries, index);
    pair_lse[index] = lse[at.own] - distance_score(alibi, pair, at.head);
    pair_delta[index] = delta[at.own];
  });
}

// Adds a pair's gradients to those of the rank's queries and of the keys and values.
template <class T>
GPU_KERNEL(threads)
add_grads_kernel(const RingRows r, const Pair pair, float* dq, float* dkv, const T* dqkv,
                 bool aligned) {
  const int slots = r.queries_per_group + 2, eighths = (r.head_dim + 7) / 8;
  const std::int64_t columns = std::int64_t{r.groups} * slots * r.head_dim;
  const std::int64_t half = half_of_chunk(r.chunk);
  for_each(std::int64_t{r.batch} * r.chunk * r.groups * slots * eighths, [=](std::int64_t n) {
    const Columns at = columns_at(8 * (n % eighths), r.head_dim, aligned);
    const std::int64_t piece = n / eighths, row = piece / slots / r.groups;
    const std::int64_t group = piece / slots % r.groups, slot = piece % slots;
    const std::int64_t sample = row / r.chunk, i = row % r.chunk;
    const std::int64_t made = 2 * half * sample + (i < half ? i : i + 2 * half - r.chunk);
    const Eight grad = load(dqkv + made * columns + piece % (slots * r.groups) * r.head_dim, at);
    const bool is_query = slot < r.queries_per_group;
    const std::int64_t width = is_query ? r.queries_per_group : 2;
    const std::int64_t own = r.own_row(sample, is_query ? pair.queries : pair.keys, i);
    float* const to = (is_query ? dq : dkv) + ((own * r.groups + group) * width +
                                               (is_query ? slot : slot - r.queries_per_group)) *
                                                  r.head_dim;
    const bool replaces = is_query && pair.comes_first;
    store(to, at,
          replaces ? grad : each([](float p, float q) { return p + q; }, load(to, at), grad));
  });
}

// Column groups of the sums and of the result: `count` heads per group, which start at head
// `first` of the result's `of`.
struct Heads {
  int count, first, of;
};

// y = a, or a + b.
template <class T>
GPU_KERNEL(threads)
write_kernel(const RingRows r, const Heads heads, T* y, const float* a, const float* b,
             bool aligned) {
  const int eighths = (r.head_dim + 7) / 8;
  const std::int64_t rows = 2 * std::int64_t{r.batch} * r.chunk;
  for_each(rows * r.groups * heads.count * eighths, [=](std::int64_t n) {
    const Columns at = columns_at(8 * (n % eighths), r.head_dim, aligned);
    const std::int64_t head = n / eighths, group = head / heads.count;
    Eight sum = load(a + head * r.head_dim, at);
    if (b) sum = each([](float p, float q) { return p + q; }, sum, load(b + head * r.head_dim, at));
    store(y + (group * heads.of + heads.first + head % heads.count) * r.head_dim, at, sum);
  });
}

template <class T>
void write(Queue& queue, const AttentionShape& s, const Heads& heads, T* y, const float* a,
           const float* b) {
  const std::int64_t count = 2 * s.batch * s.cut.chunk * s.groups * heads.count;
  launch(queue, over(count * ((s.head_dim + 7) / 8)), write_kernel<T>, RingRows(s), heads, y, a, b,
         rows_are_aligned(s.head_dim, y) && rows_are_aligned(s.head_dim, a, b));
}

// --- the pairs of a ring step ---

// Scratch of a pair of chunks.
template <class T>
class Pairs {
 public:
  Pairs(Queue& queue, const AttentionShape& shape, const SequenceCut& keys, bool first,
        void* scratch, bool backward)
      : queue_(queue),
        s_(shape),
        keys_(keys),
        first_(first),
        scratch_(static_cast<std::byte*>(scratch)),
        places_(shape, sizeof(T), backward),
        // Only the rule is used; the data are not read.
        alibi_(attention_of(shape, static_cast<const float*>(scratch))) {}

  // Calls body(pair) for each pair with visible keys. Chunks have equal lengths, so a later
  // chunk is not visible at all.
  template <class Body>
  void each(const Body& body) const {
    for (int queries = 0; queries < 2; ++queries)
      for (int keys = 0; keys < 2; ++keys) {
        const std::int64_t ahead = keys_.first[keys] - s_.cut.first[queries];
        if (ahead <= 0) body(Pair{queries, keys, static_cast<int>(ahead), first_ && keys == 0});
      }
  }

  template <class V>
  V* at(std::int64_t RingScratch::*part) const {
    return reinterpret_cast<V*>(scratch_ + places_.*part);
  }

  // Shape with sequences of a chunk's length, for the queries and keys of the pair.
  AttentionShape shape_of(const Pair& pair, const T* qkv, const T* kv) const {
    const std::int64_t chunk = s_.cut.chunk, group = (s_.queries_per_group + 2) * s_.head_dim;
    const std::int64_t of_queries = s_.queries_per_group * s_.head_dim;
    const auto rows = [&](std::int64_t columns, int half) {
      return BlockCopy{.counts = {s_.batch, chunk, s_.groups},
                       .dst_strides = {chunk * s_.qkv_cols(), s_.qkv_cols(), group},
                       .src_strides = {2 * chunk * columns, columns, columns / s_.groups},
                       .src_first = half * chunk * columns};
    };
    BlockCopy queries = rows(s_.qkv_cols(), pair.queries);
    queries.width = of_queries;
    BlockCopy keys = rows(s_.groups * 2 * s_.head_dim, pair.keys);
    keys.width = 2 * s_.head_dim;
    keys.dst_first = of_queries;
    T* const both = at<T>(&RingScratch::qkv);
    kernels<T>().copy_blocks(queue_, both, qkv, queries);
    kernels<T>().copy_blocks(queue_, both, kv, keys);

    AttentionShape shape = s_;
    shape.seq = chunk;
    shape.causal = pair.ahead == 0;
    shape.cut = {};
    shape.dropout.first_row = s_.cut.first[pair.queries];
    shape.dropout.first_column = keys_.first[pair.keys];
    if (s_.first_visible) {
      auto* const first = at<std::int32_t>(&RingScratch::first_visible);
      launch(queue_, over(s_.batch * chunk, threads), first_visible_kernel, RingRows(s_), s_.seq,
             static_cast<int>(s_.cut.first[pair.queries]), static_cast<int>(keys_.first[pair.keys]),
             first, s_.first_visible);
      shape.first_visible = first;
    }
    return shape;
  }

  const Attention<float>& alibi() const { return alibi_; }

 private:
  Queue& queue_;
  const AttentionShape& s_;
  const SequenceCut& keys_;
  const bool first_;
  std::byte* const scratch_;
  const RingScratch places_;
  const Attention<float> alibi_;
};

template <class T>
void ring_attention(Queue& queue, const AttentionShape& s, const SequenceCut& keys, bool first,
                    T* ctx, float* sums, float* lse, const T* qkv, const T* kv) {
  const Pairs<T> pairs(queue, s, keys, first, sums, false);
  T* const made = pairs.template at<T>(&RingScratch::ctx);
  float* const made_lse = pairs.template at<float>(&RingScratch::lse);
  pairs.each([&](const Pair& pair) {
    kernels<T>().attention(queue, pairs.shape_of(pair, qkv, kv), made, made_lse,
                           pairs.template at<T>(&RingScratch::qkv), nullptr);
    const std::int64_t rows = s.batch * s.heads() * s.cut.chunk;
    launch(queue, one_block_each(ceil_div(rows * lanes_of_row, std::int64_t{threads}), threads),
           merge_kernel<T>, RingRows(s), pair, pairs.alibi(), sums, lse, made, made_lse,
           rows_are_aligned(s.head_dim, made) && rows_are_aligned(s.head_dim, sums));
  });
  const int heads = static_cast<int>(s.queries_per_group);
  if (ctx) write<T>(queue, s, {heads, 0, heads}, ctx, sums, nullptr);
}

template <class T>
void ring_attention_grad(Queue& queue, const AttentionShape& s, const SequenceCut& keys, bool first,
                         T* dqkv, float* dkv, const T* qkv, const T* kv, const T* dctx,
                         const float* lse, const float* delta, void* workspace) {
  const Pairs<T> pairs(queue, s, keys, first, workspace, true);
  float* const dq = pairs.template at<float>(&RingScratch::sums);
  T* const made = pairs.template at<T>(&RingScratch::dqkv);
  T* const pair_dctx = pairs.template at<T>(&RingScratch::ctx);
  float* const pair_lse = pairs.template at<float>(&RingScratch::lse);
  float* const pair_delta = pairs.template at<float>(&RingScratch::delta);
  const std::int64_t chunk = s.cut.chunk, half = half_of_chunk(chunk), heads = s.heads();
  pairs.each([&](const Pair& pair) {
    AttentionShape shape = pairs.shape_of(pair, qkv, kv);
    shape.cut = {half, {0, chunk - half}};
    kernels<T>().copy_blocks(queue, pair_dctx, dctx,
                             {.counts = {s.batch, chunk, 1},
                              .dst_strides = {chunk * s.ctx_cols(), s.ctx_cols(), 0},
                              .src_strides = {2 * chunk * s.ctx_cols(), s.ctx_cols(), 0},
                              .src_first = pair.queries * chunk * s.ctx_cols(),
                              .width = s.ctx_cols()});
    launch(queue, over(s.batch * heads * chunk, threads), statistics_kernel, RingRows(s), pair,
           pairs.alibi(), pair_lse, pair_delta, lse, delta);
    kernels<T>().context_attention_grad(queue, shape, made, pairs.template at<T>(&RingScratch::qkv),
                                        pair_dctx, pair_lse, pair_delta, nullptr);
    launch(queue,
           over(s.batch * chunk * s.groups * (s.queries_per_group + 2) * ((s.head_dim + 7) / 8),
                threads),
           add_grads_kernel<T>, RingRows(s), pair, dq, dkv, made,
           rows_are_aligned(s.head_dim, made) && rows_are_aligned(s.head_dim, dq, dkv));
  });
  const int queries = static_cast<int>(s.queries_per_group);
  if (dqkv) write<T>(queue, s, {queries, 0, queries + 2}, dqkv, dq, nullptr);
}

template <class T>
void ring_key_grads(Queue& queue, const AttentionShape& s, T* dqkv, const float* own,
                    const float* arrived) {
  const int queries = static_cast<int>(s.queries_per_group);
  write<T>(queue, s, {2, queries, queries + 2}, dqkv, own, arrived);
}

}  // namespace

template <class T>
void set_ring(Kernels<T>& table) {
  table.ring_attention = ring_attention<T>;
  table.ring_attention_grad = ring_attention_grad<T>;
  table.ring_key_grads = ring_key_grads<T>;
}
TRIREME_GPU_INSTANTIATE(set_ring);

}  // namespace trireme::gpu
