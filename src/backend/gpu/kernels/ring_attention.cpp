// Ring attention of a rank of context parallelism: a chunk of queries meets a chunk of keys by the
// kernels of attention, sample by sample, and what such pairs leave is joined here in fp32. A pair
// is a causal attention where both chunks are the same, and one that sees all keys where those of
// the keys come first, but for the beginnings of packed documents.
#include "backend/gpu/kernels/attention.h"
#include "backend/gpu/kernels/eight.h"
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/ring_scratch.h"

namespace trireme::gpu {
namespace {

constexpr int threads = 256, lanes_of_head = 8;

// A chunk of queries of a sample and a chunk of keys, each the first or the second of its rank's.
struct Pair {
  std::int64_t sample;
  int queries, keys;

  std::int64_t query_row(const AttentionShape& s) const {
    return (2 * sample + queries) * s.cut.chunk;
  }
  std::int64_t key_row(const SequenceCut& cut) const { return (2 * sample + keys) * cut.chunk; }
};

// Calls body(pair) where queries see keys, keys in the order of their positions.
template <class Body>
void for_pairs(const AttentionShape& s, const SequenceCut& keys, const Body& body) {
  for (std::int64_t sample = 0; sample < s.batch; ++sample)
    for (int of_queries = 0; of_queries < 2; ++of_queries)
      for (int of_keys = 0; of_keys < 2; ++of_keys)
        if (keys.first[of_keys] <= s.cut.first[of_queries]) body(Pair{sample, of_queries, of_keys});
}

std::int64_t key_columns(const AttentionShape& s) {
  return s.groups * 2 * s.head_dim;
}

template <class T>
T* at(void* workspace, std::int64_t offset) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(workspace) + offset);
}

// The first keys that queries see, counted from the first of the chunk of keys.
GPU_KERNEL(threads)
begins_kernel(std::int32_t* begins, const std::int32_t* first_visible, int first_key, int chunk) {
  for_each(chunk, [=](std::int64_t i) {
    const int begin = first_visible[i] - first_key;
    begins[i] = begin < 0 ? 0 : begin > chunk ? chunk : begin;
  });
}

template <class T>
Attention<T> attention_of_pair(Queue& queue, const AttentionShape& s, const SequenceCut& keys,
                               const Pair& pair, const T* qkv, const T* kv, std::int32_t* begins) {
  const std::int64_t columns = key_columns(s);
  const std::int64_t first_query = s.cut.first[pair.queries], first_key = keys.first[pair.keys];
  Attention<T> a = attention_of(s, qkv + pair.query_row(s) * s.qkv_cols());
  a.batch = 1;
  a.queries = a.keys = static_cast<int>(s.cut.chunk);
  a.k = kv + pair.key_row(keys) * columns;
  a.v = a.k + s.head_dim;
  a.kv_pitch = columns;
  a.kv_group = 2 * s.head_dim;
  a.in_packs = a.in_packs && lies_in_packs(a.k, columns, s.head_dim);
  a.causal = first_key == first_query;
  if (s.first_visible) {
    launch(queue, over(s.cut.chunk, threads), begins_kernel, begins,
           s.first_visible + pair.sample * s.seq + first_query, static_cast<int>(first_key),
           static_cast<int>(s.cut.chunk));
    a.first_visible = begins;
  }
  return a;
}

// --- forward ---

// Where a pair's result goes: rows of sums, and the log-sum-exps of its queries, whose groups lie
// `lse_group` apart.
template <class T>
struct Joined {
  float *sums, *lse;
  const T* part;
  const float* part_lse;
  int chunk, heads, queries_per_group, head_dim;
  std::int64_t lse_group;
  bool resumes;
};

// Two softmaxes over different keys become one. A group of lanes has a head of a query.
template <class T>
GPU_KERNEL(threads)
join_kernel(const Joined<T> j) {
  const std::int64_t index =
      (std::int64_t{block_index().x} * threads + thread_index()) / lanes_of_head;
  const bool is_there = index < std::int64_t{j.chunk} * j.heads,
             leads = lane() % lanes_of_head == 0;
  const auto head = static_cast<int>(index % j.heads), query = static_cast<int>(index / j.heads);
  const std::int64_t place = head / j.queries_per_group * j.lse_group +
                             std::int64_t{head % j.queries_per_group} * j.chunk + query;
  // The lane that writes it is the only one that reads it.
  float before = is_there && j.resumes && leads ? j.lse[place] : 0.0f;
#pragma unroll
  for (int mask = 1; mask < lanes_of_head; mask *= 2) before += shuffle_xor(before, mask);
  if (!is_there) return;
  constexpr float never = -std::numeric_limits<float>::infinity();
  const float now = j.part_lse[std::int64_t{head} * j.chunk + query];
  if (!j.resumes) before = never;
  const float largest = before > now ? before : now;
  float keep = 0, take = 1, joined = now;
  if (j.resumes && largest != never) {
    keep = exp2((before - largest) * log2_of_e);
    take = exp2((now - largest) * log2_of_e);
    const float total = keep + take;
    keep /= total;
    take /= total;
    joined = largest + log2(total) * ln_of_2;
  }
  const std::int64_t from = index * j.head_dim;
  for (int i = lane() % lanes_of_head; i < j.head_dim; i += lanes_of_head) {
    const float added = take * to_float(j.part[from + i]);
    j.sums[from + i] = j.resumes ? j.sums[from + i] * keep + added : added;
  }
  if (leads) j.lse[place] = joined;
}

template <class T>
GPU_KERNEL(threads)
as_stored_kernel(T* to, const float* from, std::int64_t count, bool aligned) {
  for_eights(count, aligned, [=](const Columns& c) { store(to, c, load(from, c)); });
}

template <class T>
void ring_attention(Queue& queue, const AttentionShape& s, const SequenceCut& keys, bool first,
                    T* ctx, float* sums, float* lse, const T* qkv, const T* kv, void* workspace) {
  const RingScratch scratch(s, sizeof(T));
  T* const part = at<T>(workspace, scratch.ctx);
  auto* const part_lse = at<float>(workspace, scratch.lse);
  const std::int64_t chunk = s.cut.chunk, of_group = s.queries_per_group * chunk;
  for_pairs(s, keys, [&](const Pair& pair) {
    run_forward(queue,
                attention_of_pair(queue, s, keys, pair, qkv, kv,
                                  at<std::int32_t>(workspace, scratch.begins)),
                part, part_lse);
    launch(
        queue,
        one_block_each(ceil_div(chunk * s.heads() * lanes_of_head, std::int64_t{threads}), threads),
        join_kernel<T>,
        Joined<T>{sums + pair.query_row(s) * s.ctx_cols(),
                  lse + (pair.sample * s.groups * 2 + pair.queries) * of_group, part, part_lse,
                  static_cast<int>(chunk), static_cast<int>(s.heads()),
                  static_cast<int>(s.queries_per_group), static_cast<int>(s.head_dim), 2 * of_group,
                  !first || pair.keys > 0});
  });
  if (!ctx) return;
  const std::int64_t count = s.batch * 2 * chunk * s.ctx_cols();
  launch(queue, over((count + 7) / 8, threads), as_stored_kernel<T>, ctx, sums, count,
         rows_are_aligned(8, ctx, sums));
}

// --- backward ---

// How the statistics of queries lie: [groups, 2, queries of a group] for each sample, and chunk by
// chunk.
GPU_KERNEL(threads)
statistics_kernel(float* to, const float* from, std::int64_t count, std::int64_t groups,
                  std::int64_t of_group) {
  for_each(count, [=](std::int64_t i) {
    const std::int64_t half = i / of_group / groups % 2, group = i / of_group % groups;
    const std::int64_t sample = i / of_group / groups / 2;
    to[i] = from[((sample * groups + group) * 2 + half) * of_group + i % of_group];
  });
}

// The columns of queries, and those of keys and values, among those of qkv.
struct GroupColumns {
  std::int64_t groups, of_queries, of_keys;

  explicit GroupColumns(const AttentionShape& s)
      : groups(s.groups), of_queries(s.queries_per_group * s.head_dim), of_keys(2 * s.head_dim) {}
  // Of element i of [rows, groups, columns of queries], or of keys.
  GPU_FN std::int64_t of_query(std::int64_t i) const {
    return i / of_queries * (of_queries + of_keys) + i % of_queries;
  }
  GPU_FN std::int64_t of_key(std::int64_t i) const {
    return i / of_keys * (of_queries + of_keys) + of_queries + i % of_keys;
  }
};

template <class T>
GPU_KERNEL(threads)
add_queries_kernel(float* sums, const T* dq, std::int64_t count, const GroupColumns columns,
                   bool resumes) {
  for_each(count, [=](std::int64_t i) {
    const float added = to_float(dq[columns.of_query(i)]);
    sums[i] = resumes ? sums[i] + added : added;
  });
}

template <class T>
GPU_KERNEL(threads)
add_keys_kernel(float* sums, const T* dkv, std::int64_t count) {
  for_each(count, [=](std::int64_t i) { sums[i] += to_float(dkv[i]); });
}

template <class T>
GPU_KERNEL(threads)
store_queries_kernel(T* dqkv, const float* sums, std::int64_t count, const GroupColumns columns) {
  for_each(count, [=](std::int64_t i) { dqkv[columns.of_query(i)] = from_float<T>(sums[i]); });
}

template <class T>
GPU_KERNEL(threads)
store_keys_kernel(T* dqkv, const float* own, const float* arrived, std::int64_t count,
                  const GroupColumns columns) {
  for_each(count,
           [=](std::int64_t i) { dqkv[columns.of_key(i)] = from_float<T>(own[i] + arrived[i]); });
}

template <class T>
void ring_attention_grad(Queue& queue, const AttentionShape& s, const SequenceCut& keys, bool first,
                         T* dqkv, float* dkv, const T* qkv, const T* kv, const T* dctx,
                         const float* lse, const float* delta, void* workspace) {
  const RingGradScratch scratch(s, sizeof(T));
  auto* const sums = at<float>(workspace, scratch.queries);
  auto* const own_lse = at<float>(workspace, scratch.lse);
  auto* const own_delta = at<float>(workspace, scratch.delta);
  T *const dq = at<T>(workspace, scratch.dq), *const dk = at<T>(workspace, scratch.dkv);
  const std::int64_t chunk = s.cut.chunk, of_group = s.queries_per_group * chunk;
  const std::int64_t of_chunk = s.groups * of_group, statistics = s.batch * 2 * of_chunk;
  const GroupColumns columns(s);
  if (first) {
    for (const auto& [to, from] : {std::pair{own_lse, lse}, {own_delta, delta}})
      launch(queue, over(statistics, threads), statistics_kernel, to, from, statistics, s.groups,
             of_group);
  }
  for_pairs(s, keys, [&](const Pair& pair) {
    Attention<T> a = attention_of_pair(queue, s, keys, pair, qkv, kv,
                                       at<std::int32_t>(workspace, scratch.begins));
    const std::int64_t row = pair.query_row(s), of_ctx = chunk * s.ctx_cols();
    const T* const pair_dctx = dctx + row * s.ctx_cols();
    a.in_packs = a.in_packs && lies_in_packs(pair_dctx, s.ctx_cols(), s.head_dim);
    const std::int64_t at_queries = (2 * pair.sample + pair.queries) * of_chunk;
    const Gradients<T> g{pair_dctx,
                         own_lse + at_queries,
                         own_delta + at_queries,
                         dq,
                         dk,
                         dk + s.head_dim,
                         1,
                         a.queries,
                         {0, 0}};
    run_backward<Owner::keys>(queue, a, g);
    run_backward<Owner::queries>(queue, a, g);
    launch(queue, over(of_ctx, threads), add_queries_kernel<T>, sums + row * s.ctx_cols(), dq,
           of_ctx, columns, !first || pair.keys > 0);
    const std::int64_t of_keys = chunk * key_columns(s);
    launch(queue, over(of_keys, threads), add_keys_kernel<T>,
           dkv + pair.key_row(keys) * key_columns(s), dk, of_keys);
  });
  if (!dqkv) return;
  const std::int64_t count = s.batch * 2 * chunk * s.ctx_cols();
  launch(queue, over(count, threads), store_queries_kernel<T>, dqkv, sums, count, columns);
}

template <class T>
void ring_key_grads(Queue& queue, const AttentionShape& s, T* dqkv, const float* own,
                    const float* arrived) {
  const std::int64_t count = s.batch * 2 * s.cut.chunk * key_columns(s);
  launch(queue, over(count, threads), store_keys_kernel<T>, dqkv, own, arrived, count,
         GroupColumns(s));
}

}  // namespace

template <class T>
void set_ring_attention(Kernels<T>& table) {
  table.ring_attention = ring_attention<T>;
  table.ring_attention_grad = ring_attention_grad<T>;
  table.ring_key_grads = ring_key_grads<T>;
}
TRIREME_GPU_INSTANTIATE(set_ring_attention);

}  // namespace trireme::gpu
