// Attention: cuts each kernel into tasks and picks the engine of the tile products.
#include "backend/cpu/kernels/attention.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "backend/cpu/kernels/attention_amx.h"
#include "backend/cpu/kernels/attention_backward.h"
#include "backend/cpu/kernels/attention_cached.h"
#include "backend/cpu/kernels/attention_fma.h"
#include "backend/cpu/kernels/attention_forward.h"
#include "backend/cpu/kernels/parallel.h"
#include "base/error.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

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

// In huge pages where the system has them: operands and sums of a tile lie in too many small ones
// for the processor's table of stores.
struct ThreadBuffer {
  void* bytes = aligned_alloc(huge_page, scratch_bytes);
  ThreadBuffer() {
    TRIREME_CHECK(bytes != nullptr);
    madvise(bytes, scratch_bytes, MADV_HUGEPAGE);
  }
  ~ThreadBuffer() { free(bytes); }
  static constexpr std::size_t huge_page = std::size_t{2} << 20;
};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Offset of a group's first column in a qkv row.
template <class Shape>
std::int64_t group_column(const Shape& s, std::int64_t group) {
  return group * (s.queries_per_group + 2) * s.head_dim;
}

// A buffer shaped like qkv, seen as the query, key and value rows of one group of one sample.
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
  GroupView<T> view;
  view.heads = s.queries_per_group;
  view.head_dim = s.head_dim;
  view.queries = s.seq;
  view.first_query = 0;
  view.keys = s.lengths ? s.lengths[sample] : s.seq;
  view.causal = s.causal;
  view.scale = s.scale;
  view.first_visible = s.first_visible ? s.first_visible + sample * s.seq : nullptr;
  view.q = rows.q;
  view.k = rows.k;
  view.v = rows.v;
  view.dropout = s.dropout.probability > 0 ? &s.dropout : nullptr;
  view.sample = view.dropout ? s.dropout.sample_ids[sample] : 0;
  view.first_head = s.first_head + group * s.queries_per_group;
  return view;
}

// Rows of a buffer shaped like ctx that belong to one group.
template <class T>
Rows<T> ctx_rows(T* ctx, const AttentionShape& s, std::int64_t sample, std::int64_t group) {
  return {ctx + sample * s.seq * s.ctx_cols() + group * s.queries_per_group * s.head_dim,
          s.ctx_cols()};
}

// How the forward pass of one group is cut: into so many heads by so many rows. A finer cut packs
// keys more often; no cut changes a result.
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

// Runs the forward pass over all groups; view(group index) and ctx(group index) give their rows.
template <class E, class View, class Ctx, class Lse>
void forward_groups(std::int64_t groups, std::int64_t heads, std::int64_t queries,
                    std::int64_t head_dim, const View& view, const Ctx& ctx, const Lse& lse) {
  const auto cut = ForwardCut::of<E>(groups, heads, queries, head_dim);
  const std::int64_t pieces = groups * cut.head_cuts;
  parallel_tasks(pieces * cut.row_cuts, [&](std::int64_t task) {
    // Late rows see most keys: they come first, so that the last tasks are short.
    const std::int64_t row = (cut.row_cuts - 1 - task / pieces) * cut.rows;
    const std::int64_t group = task % pieces / cut.head_cuts;
    const std::int64_t head = task % cut.head_cuts * cut.heads;
    const std::int64_t rest = heads - head;
    [[maybe_unused]] const typename E::Session session;
    ForwardPass<E>::run(view(group), head, rest < cut.heads ? rest : cut.heads, row,
                        row + cut.rows < queries ? row + cut.rows : queries, ctx(group), lse(group),
                        queries);
  });
}

// Everything one group's backward pass needs.
template <class T>
struct BackwardGroup {
  GroupView<T> view;
  GroupGrads<T> grads;
};

template <class T>
BackwardGroup<T> backward_group(const AttentionShape& s, T* dqkv, const T* dctx, const T* qkv,
                                const T* ctx, const Acc<T>* lse, void* workspace,
                                std::int64_t index) {
  const std::int64_t sample = index / s.groups, group = index % s.groups;
  const GroupRows<T> grads(dqkv, s, sample, group);
  BackwardGroup<T> out;
  out.view = view_of(s, qkv, sample, group);
  out.grads = {ctx_rows(ctx, s, sample, group),
               ctx_rows(dctx, s, sample, group),
               lse + index * s.queries_per_group * s.seq,
               s.seq,
               grads.q,
               grads.k,
               grads.v,
               static_cast<Acc<T>*>(workspace) +
                   index * BackwardPass<Engine<T>>::dq_elements(s.queries_per_group, s.seq,
                                                                s.head_dim)};
  return out;
}

// One walk makes all gradients of a group with five products per tile. Where there are too few
// groups for the threads, walks by key blocks make dk and dv (four products) and walks by query
// blocks make dq (three): more work, more tasks, the same bits.
bool groups_fill_threads(std::int64_t groups) {
  const std::int64_t threads = pool_threads();
  return 5 * ceil_div(groups, threads) * threads <= 7 * groups;
}

template <class E, class Group>
void backward_whole(const AttentionShape& s, const Group& group_at) {
  parallel_tasks(s.batch * s.groups, [&](std::int64_t task) {
    const auto group = group_at(task);
    [[maybe_unused]] const typename E::Session session;
    BackwardPass<E>::template run<true, true>(group.view, group.grads,
                                              {0, s.queries_per_group, 0, s.seq, 0, s.seq});
  });
}

template <class E, class Group>
void backward_split(const AttentionShape& s, const Group& group_at) {
  const std::int64_t groups = s.batch * s.groups;
  const std::int64_t keys = BackwardPass<E>::key_block(s.head_dim);
  const std::int64_t rows = 4 * BackwardPass<E>::tile_queries;
  const std::int64_t row_cuts = ceil_div(s.seq, rows);
  const std::int64_t key_tasks = groups * ceil_div(s.seq, keys);
  const std::int64_t heads = groups * s.queries_per_group;
  parallel_tasks(key_tasks + heads * row_cuts, [&](std::int64_t task) {
    [[maybe_unused]] const typename E::Session session;
    if (task < key_tasks) {  // early keys are seen by most queries: longest first
      const auto group = group_at(task % groups);
      const std::int64_t key = task / groups * keys;
      BackwardPass<E>::template run<false, true>(
          group.view, group.grads,
          {0, s.queries_per_group, 0, s.seq, key, key + keys < s.seq ? key + keys : s.seq});
    } else {
      task -= key_tasks;
      const std::int64_t head = task % heads % s.queries_per_group;
      const std::int64_t row = (row_cuts - 1 - task / heads) * rows;
      const auto group = group_at(task % heads / s.queries_per_group);
      BackwardPass<E>::template run<true, false>(
          group.view, group.grads,
          {head, head + 1, row, row + rows < s.seq ? row + rows : s.seq, 0, s.seq});
    }
  });
}

// One group of one sequence of cached attention: the view has the cache as keys and values.
template <class T>
struct CachedGroup {
  GroupView<T> view;
  Rows<T> ctx;
  Rows<T> keys, values;  // of the cache, from position 0

  CachedGroup(const CachedAttentionShape& s, T* ctx_data, const T* qkv, T* key_cache,
              T* value_cache, const std::int32_t* lengths, std::int64_t index) {
    const std::int64_t sequence = index / s.groups, group = index % s.groups;
    const std::int64_t cache_cols = s.groups * s.head_dim;
    const std::int64_t ctx_cols = cache_cols * s.queries_per_group;
    const std::int64_t cache = sequence * s.capacity * cache_cols + group * s.head_dim;
    keys = {key_cache + cache, cache_cols};
    values = {value_cache + cache, cache_cols};
    ctx = {ctx_data + sequence * s.new_len * ctx_cols + group * s.queries_per_group * s.head_dim,
           ctx_cols};
    view = {};
    view.heads = s.queries_per_group;
    view.head_dim = s.head_dim;
    view.queries = s.new_len;
    view.first_query = lengths[sequence];
    view.keys = lengths[sequence] + s.new_len;
    view.causal = true;
    view.scale = s.scale;
    const std::int64_t cols = group_column(s, s.groups);
    view.q = {qkv + sequence * s.new_len * cols + group_column(s, group), cols};
    view.k = {keys.data, keys.stride};
    view.v = {values.data, values.stride};
  }

  // Copies the new keys and values into the cache.
  void append() const {
    const auto k = view.q.right_by(view.heads * view.head_dim), v = k.right_by(view.head_dim);
    for (std::int64_t i = 0; i < view.queries; ++i) {
      __builtin_memcpy(keys.row(view.first_query + i), k.row(i), view.head_dim * sizeof(T));
      __builtin_memcpy(values.row(view.first_query + i), v.row(i), view.head_dim * sizeof(T));
    }
  }
};

}  // namespace

void* attention_scratch() {
  static thread_local const ThreadBuffer buffer;
  return buffer.bytes;
}

template <class T>
void attention(const AttentionShape& s, T* ctx, Acc<T>* lse, const T* qkv, void*) {
  TRIREME_CHECK(s.head_dim >= 1 && s.head_dim <= max_head_dim && s.scale > 0);
  forward_groups<Engine<T>>(
      s.batch * s.groups, s.queries_per_group, s.seq, s.head_dim,
      [&](std::int64_t i) { return view_of(s, qkv, i / s.groups, i % s.groups); },
      [&](std::int64_t i) { return ctx_rows(ctx, s, i / s.groups, i % s.groups); },
      [&](std::int64_t i) { return lse + i * s.queries_per_group * s.seq; });
}

template <class T>
void attention_grad(const AttentionShape& s, T* dqkv, const T* dctx, const T* qkv, const T* ctx,
                    const Acc<T>* lse, void* workspace) {
  TRIREME_CHECK(s.head_dim >= 1 && s.head_dim <= max_head_dim && s.scale > 0);
  const auto group = [&](std::int64_t index) {
    return backward_group(s, dqkv, dctx, qkv, ctx, lse, workspace, index);
  };
  if (groups_fill_threads(s.batch * s.groups)) {
    backward_whole<Engine<T>>(s, group);
  } else {
    backward_split<Engine<T>>(s, group);
  }
}

template <class T>
std::int64_t attention_workspace(const AttentionShape& s) {
  return s.batch * s.groups *
         BackwardPass<Engine<T>>::dq_elements(s.queries_per_group, s.seq, s.head_dim) *
         static_cast<std::int64_t>(sizeof(Acc<T>));
}

template <class T>
void cached_attention(const CachedAttentionShape& s, T* ctx, const T* qkv, T* key_cache,
                      T* value_cache, const std::int32_t* lengths) {
  TRIREME_CHECK(s.head_dim >= 1 && s.head_dim <= max_head_dim && s.scale > 0);
  constexpr std::int64_t few_rows = 8;
  const std::int64_t groups = s.batch * s.groups;
  const auto at = [&](std::int64_t i) {
    return CachedGroup<T>(s, ctx, qkv, key_cache, value_cache, lengths, i);
  };
  if (s.new_len * s.queries_per_group <= few_rows) {
    parallel_tasks(groups, [&](std::int64_t task) {
      const auto group = at(task);
      group.append();
      RowAttention<T>::run(group.view, group.ctx);
    });
    return;
  }
  parallel_tasks(groups, [&](std::int64_t task) { at(task).append(); });
  forward_groups<Engine<T>>(
      groups, s.queries_per_group, s.new_len, s.head_dim,
      [&](std::int64_t i) { return at(i).view; }, [&](std::int64_t i) { return at(i).ctx; },
      [](std::int64_t) { return static_cast<Acc<T>*>(nullptr); });
}

#define TRIREME_INSTANTIATE(T)                                                                     \
  template void attention<T>(const AttentionShape&, T*, Acc<T>*, const T*, void*);                 \
  template void attention_grad<T>(const AttentionShape&, T*, const T*, const T*, const T*,         \
                                  const Acc<T>*, void*);                                           \
  template std::int64_t attention_workspace<T>(const AttentionShape&);                             \
  template void cached_attention<T>(const CachedAttentionShape&, T*, const T*, T*, T*,             \
                                    const std::int32_t*);
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(bf16)
TRIREME_INSTANTIATE(f16)
TRIREME_INSTANTIATE(double)
#undef TRIREME_INSTANTIATE

}  // namespace trireme::cpu::TRIREME_ISA
