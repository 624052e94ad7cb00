// Attention backward on matrix units: two kernels recompute the probabilities from the saved
// log-sum-exp. A block of the first owns some keys (attention_keys.h), of the second some queries
// (attention_queries.h). Every sum thus has one owner and one order, at the cost of seven tile
// products instead of five.
#pragma once

#include "backend/gpu/kernels/attention_tiles.h"

namespace trireme::gpu {

enum class Owner : std::uint8_t { keys, queries };

// Blocks per chunk. A chunk that is not a whole sequence may begin within a tile, since a block's
// rows start at a multiple of the alignment of tiles and dropout draws.
inline constexpr int row_alignment = 16;
constexpr int backward_cuts(int chunks, int chunk, int rows) {
  return (chunk + (chunks > 1 ? row_alignment - 1 : 0) + rows - 1) / rows;
}

// The rows of a block, part of a chunk of a sequence. Blocks with the most visible pairs come
// first. Computed again where results are stored, which costs less than registers throughout the
// kernel.
template <Owner owner, int rows>
struct BackwardPlace {
  int sample, part, head;  // head: first of the group if keys are owned
  int first;               // of the block

  template <class T>
  GPU_FN BackwardPlace(const Attention<T>& a, const Gradients<T>& g) {
    const int index = recomputed(static_cast<int>(block_index().x));
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

// Tensors of one sample in device memory.
template <class T>
class BackwardOperands {
 public:
  GPU_FN BackwardOperands(const Attention<T>& a, const Gradients<T>& g, int sample, int keys)
      : a_(a), g_(g), sample_(sample), keys_(keys) {}

  GPU_FN Matrix<T> q(int head) const {
    return a_.matrix(a_.q + a_.q_offset(sample_, head), a_.q_pitch, a_.queries);
  }
  GPU_FN Matrix<T> dctx(int head) const {
    return a_.matrix(g_.dctx + a_.ctx_offset(sample_, head), a_.ctx_pitch(), a_.queries);
  }
  GPU_FN Matrix<T> k(int head) const { return of_keys(a_.k, head); }
  GPU_FN Matrix<T> v(int head) const { return of_keys(a_.v, head); }
  // First of a head's values per query.
  GPU_FN std::int64_t per_query(int head) const {
    return (std::int64_t{sample_} * a_.heads() + head) * a_.queries;
  }

 private:
  GPU_FN Matrix<T> of_keys(const T* data, int head) const {
    return a_.matrix(data + sample_ * a_.kv_sample + head / a_.queries_per_group * a_.kv_group,
                     a_.kv_pitch, keys_);
  }

  const Attention<T>& a_;
  const Gradients<T>& g_;
  const int sample_, keys_;
};

// The mask of a wave's scores in the backward pass; its first query and key are within the sample.
template <class Kept, class T>
GPU_FN void draw_kept(Kept& kept, const Attention<T>& a, int sample, int head, int query, int key) {
  kept.draw(AttentionMask(a.dropout, a.rule.first_head + head, a.dropout.sample_ids[sample]), query,
            key);
}

// One factor for all rows, as store_sums() takes it.
template <int rows>
struct RowFactors {
  float of[rows][TileMap::sum_rows];
  GPU_FN explicit RowFactors(float factor) {
#pragma unroll
    for (int r = 0; r < rows; ++r)
#pragma unroll
      for (int slot = 0; slot < TileMap::sum_rows; ++slot) of[r][slot] = factor;
  }
};

// Variant for soft-capped scores, compiled in a separate file.
template <class T>
void run_capped_backward(Queue&, const Attention<T>&, const Gradients<T>&);

}  // namespace trireme::gpu
