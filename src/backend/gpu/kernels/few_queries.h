// Attention of a few queries: one block per query and piece of its keys, then one per query that
// combines the pieces. Keys are read once per query, mostly from L2 if queries share them; the goal
// is that a long cache occupies the whole GPU.
#pragma once

#include "backend/gpu/few_queries.h"
#include "backend/gpu/kernels/attention.h"
#include "backend/gpu/kernels/eight.h"

namespace trireme::gpu {

// Query of a block: y counts heads and queries, z samples.
struct QueryPlace {
  int sample, head, query;

  template <class T>
  GPU_FN static QueryPlace of_block(const Attention<T>& a) {
    const auto row = static_cast<int>(block_index().y);
    return {static_cast<int>(block_index().z), row / a.queries, row % a.queries};
  }
  template <class T>
  GPU_FN std::int64_t row(const Attention<T>& a) const {
    return (std::int64_t{sample} * a.heads() + head) * a.queries + query;
  }
};

template <class T>
GPU_FN float score_of(const T* query, const T* key, int head_dim, bool in_packs) {
  float sum = 0;
  for (int c = 0; c < head_dim; c += 8) {
    const Columns at = columns_at(c, head_dim, in_packs);
    const Eight x = load(query, at), y = load(key, at);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += x.v[i] * y.v[i];
  }
  return sum;
}

struct SplitWeights {
  float of[split_keys];
};

// parts [query][splits][part_size]
template <class T, bool capped>
GPU_KERNEL(split_keys)
few_queries_kernel(const Attention<T> a, float* parts, int splits) {
  const QueryPlace at = QueryPlace::of_block(a);
  const KeyRange seen = a.visibility(at.sample).of(at.query);
  const auto split = static_cast<int>(block_index().x), first = split * split_keys;
  if (first >= seen.end || first + split_keys <= seen.begin) return;
  const T* const query = a.q + a.q_offset(at.sample, at.head) + at.query * a.q_pitch;
  const std::int64_t offset = a.kv_offset(at.sample, at.head / a.queries_per_group);
  const auto thread = static_cast<int>(thread_index()), key = first + thread;
  constexpr float lowest = -__builtin_inff();
  const bool sees = key >= seen.begin && key < seen.end;
  float score = lowest;
  if (sees) {
    score = score_of(query, a.k + offset + key * a.kv_pitch, a.head_dim, a.in_packs);
    if constexpr (capped) {
      score = a.cap * tangent(score * a.cap_part);
    } else {
      // The query's own position is that of its latest visible key.
      if (a.rule.alibi_heads > 0)
        score += a.slope(at.head) * static_cast<float>(key - (seen.end - 1));
      score *= a.scale;
    }
  }
  const float largest = block_max<split_keys>(score);
  const float weight = sees ? exp(score - largest) : 0.0f;
  SplitWeights& weights = shared_memory<SplitWeights>();
  weights.of[thread] = weight;
  const float sum = block_sum<split_keys>(weight);  // its barriers also publish the weights
  float* const part = parts + (at.row(a) * splits + split) * part_size(a.head_dim);
  if (thread == 0) {
    part[0] = largest;
    part[1] = sum;
  }
  const int keys = seen.end - first < split_keys ? seen.end - first : split_keys;
  for (int d = thread; d < a.head_dim; d += split_keys) {
    const T* const value = a.v + offset + first * a.kv_pitch + d;
    float total = 0;
    for (int k = seen.begin > first ? seen.begin - first : 0; k < keys; ++k)
      total += weights.of[k] * to_float(value[k * a.kv_pitch]);
    part[2 + d] = total;
  }
}

template <class T>
GPU_KERNEL(128)
join_splits_kernel(const Attention<T> a, const float* parts, int splits, T* ctx, float* lse) {
  const QueryPlace at = QueryPlace::of_block(a);
  const KeyRange seen = a.visibility(at.sample).of(at.query);
  const int begin = seen.begin / split_keys, used = (seen.end + split_keys - 1) / split_keys;
  const std::int64_t size = part_size(a.head_dim);
  const float* const part = parts + at.row(a) * splits * size;
  float largest = part[begin * size];
  for (int s = begin + 1; s < used; ++s)
    largest = part[s * size] > largest ? part[s * size] : largest;
  T* const to = ctx + a.ctx_offset(at.sample, at.head) + at.query * a.ctx_pitch();
  for (auto d = static_cast<int>(thread_index()); d < a.head_dim; d += 128) {
    float sum = 0, total = 0;
    for (int s = begin; s < used; ++s) {
      const float share = exp(part[s * size] - largest);
      sum += share * part[s * size + 1];
      total += share * part[s * size + 2 + d];
    }
    to[d] = from_float<T>(total / sum);
    if (lse && d == 0) lse[at.row(a)] = largest + log(sum);
  }
}

template <class T>
void run_few_queries(Queue& queue, const Attention<T>& a, T* ctx, float* lse, float* parts,
                     std::int64_t splits) {
  const auto rows = static_cast<unsigned>(a.groups * a.queries_per_group * a.queries);
  const auto samples = static_cast<unsigned>(a.batch);
  const auto count = static_cast<int>(splits);
  launch(queue, {.blocks = {static_cast<unsigned>(splits), rows, samples}, .threads = split_keys},
         a.cap > 0 ? few_queries_kernel<T, true> : few_queries_kernel<T, false>, a, parts, count);
  launch(queue, {.blocks = {1, rows, samples}, .threads = 128}, join_splits_kernel<T>, a,
         static_cast<const float*>(parts), count, ctx, lse);
}

}  // namespace trireme::gpu
