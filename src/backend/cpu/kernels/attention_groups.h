// Attention by groups of heads: the engine of a storage type, the rows of a group within the
// tensors, and the split of the forward pass into tasks.
#pragma once

#include "backend/cpu/kernels/attention_amx.h"
#include "backend/cpu/kernels/attention_fma.h"
#include "backend/cpu/kernels/attention_forward.h"
#include "backend/cpu/kernels/parallel.h"
#include "base/divide.h"

namespace trireme::cpu::TRIREME_ISA {

template <class T>
struct EngineOf {
  using Type = FmaEngine<T>;
};
#ifdef TRIREME_HAS_AMX
template <>
struct EngineOf<bf16> {
  using Type = AmxEngine;
};
#endif
template <class T>
using Engine = typename EngineOf<T>::Type;

// Offset of a group's first column in a qkv row.
template <class Shape>
std::int64_t group_column(const Shape& s, std::int64_t group) {
  return group * (s.queries_per_group + 2) * s.head_dim;
}

// View of a qkv-shaped buffer as the query, key and value rows of one group of one sample.
template <class T>
struct GroupRows {
  Rows<T> q, k, v;
  GroupRows(T* qkv, const AttentionShape& s, std::int64_t sample, std::int64_t group) {
    q = {qkv + sample * s.seq * s.qkv_cols() + group_column(s, group), s.qkv_cols()};
    k = q.right_by(s.queries_per_group * s.head_dim);
    v = k.right_by(s.head_dim);
  }
};

template <class T>
GroupView<T> view_of(const AttentionShape& s, const T* qkv, std::int64_t sample,
                     std::int64_t group) {
  const GroupRows<const T> rows(qkv, s, sample, group);
  GroupView<T> view{.rule = s};
  view.queries = s.seq;
  view.first_query = 0;
  view.keys = s.lengths ? s.lengths[sample] : s.seq;
  view.first_visible = s.first_visible ? s.first_visible + sample * s.seq : nullptr;
  view.q = rows.q;
  view.k = rows.k;
  view.v = rows.v;
  view.dropout = s.dropout.probability > 0 ? &s.dropout : nullptr;
  view.sample = view.dropout ? s.dropout.sample_ids[sample] : 0;
  view.first_head = s.first_head + group * s.queries_per_group;
  if (s.scores && s.scores->largest_scores)
    view.largest = s.scores->largest_scores + s.layer * s.scores->score_heads + view.first_head;
  return view;
}

// Rows of one group in a ctx-shaped buffer.
template <class T>
Rows<T> ctx_rows(T* ctx, const AttentionShape& s, std::int64_t sample, std::int64_t group) {
  return {ctx + sample * s.seq * s.ctx_cols() + group * s.queries_per_group * s.head_dim,
          s.ctx_cols()};
}

// Split of a group's forward pass into blocks of this many heads by this many rows. A finer split
// packs keys more often; no split changes a result.
struct ForwardCut {
  std::int64_t heads, rows, head_cuts, row_cuts;

  template <class E>
  static ForwardCut of(std::int64_t groups, std::int64_t queries_per_group, std::int64_t seq,
                       std::int64_t head_dim) {
    constexpr std::int64_t tile = ForwardPass<E>::tile_queries;
    constexpr std::int64_t least_tiles = 4, tasks_per_thread = 4;
    const std::int64_t all = groups * queries_per_group * ceil_div(seq, tile);
    std::int64_t tiles = ceil_div(all, tasks_per_thread * pool_threads());
    const std::int64_t most = ForwardPass<E>::tiles_at_once(head_dim);
    tiles = tiles < least_tiles ? least_tiles : tiles;
    tiles = tiles > most ? most : tiles;
    ForwardCut cut;
    cut.heads = queries_per_group < tiles ? queries_per_group : tiles;
    cut.rows = tiles / cut.heads * tile;
    cut.head_cuts = ceil_div(queries_per_group, cut.heads);
    cut.row_cuts = ceil_div(seq, cut.rows);
    return cut;
  }
};

// Calls run(group, first head, heads, first row, end of rows) for all pieces of all groups.
template <class E, class Run>
void forward_pieces(std::int64_t groups, std::int64_t heads, std::int64_t queries,
                    std::int64_t head_dim, const Run& run) {
  const auto cut = ForwardCut::of<E>(groups, heads, queries, head_dim);
  const std::int64_t pieces = groups * cut.head_cuts;
  parallel_tasks(pieces * cut.row_cuts, [&](std::int64_t task) {
    // Late rows see the most keys; they run first, so that the last tasks are short.
    const std::int64_t row = (cut.row_cuts - 1 - task / pieces) * cut.rows;
    const std::int64_t group = task % pieces / cut.head_cuts;
    const std::int64_t head = task % cut.head_cuts * cut.heads;
    const std::int64_t rest = heads - head;
    [[maybe_unused]] const typename E::Session session;
    run(group, head, rest < cut.heads ? rest : cut.heads, row,
        row + cut.rows < queries ? row + cut.rows : queries);
  });
}

// Runs the forward pass of all groups; view(group) and ctx(group) return a group's rows.
template <class E, class View, class Ctx, class Lse>
void forward_groups(std::int64_t groups, std::int64_t heads, std::int64_t queries,
                    std::int64_t head_dim, const View& view, const Ctx& ctx, const Lse& lse) {
  forward_pieces<E>(groups, heads, queries, head_dim,
                    [&](std::int64_t group, std::int64_t head, std::int64_t count, std::int64_t row,
                        std::int64_t end) {
                      ForwardPass<E>::run(view(group), head, count, row, end, ctx(group),
                                          lse(group), queries);
                    });
}

}  // namespace trireme::cpu::TRIREME_ISA
