// Ring attention (Liu et al. 2023): the keys and values of all ranks circulate past a rank's two
// query chunks of each sequence. A softmax over part of the keys is kept as its result and the log
// of its sum, and resumes from there with the next part.
#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/attention_backward.h"
#include "backend/cpu/kernels/attention_chunks.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

std::int64_t key_columns(const AttentionShape& s) {
  return s.groups * 2 * s.head_dim;
}

// Rows of a kv-shaped buffer, numbered by the positions of its chunk `half`.
template <class T>
Rows<T> rows_of_keys(T* kv, const AttentionShape& s, const ChunkPlace& at, const SequenceCut& keys,
                     std::int64_t half) {
  const std::int64_t row = (2 * at.sample + half) * keys.chunk - keys.first[half];
  return {kv + row * key_columns(s) + at.group * 2 * s.head_dim, key_columns(s)};
}

// A chunk's queries with the keys of chunk `half` of this or another rank.
template <class T>
GroupView<T> view_of_keys(const AttentionShape& s, const T* qkv, const T* kv, const ChunkPlace& at,
                          const SequenceCut& keys, std::int64_t half) {
  GroupView<T> view = view_of_chunk(s, qkv, kv, at);
  view.k = rows_of_keys(kv, s, at, keys, half);
  view.v = view.k.right_by(s.head_dim);
  view.first_key = keys.first[half];
  view.keys = view.first_key + keys.chunk;
  return view;
}

// Chunks have equal lengths, so a later chunk is not visible at all.
bool sees(const AttentionShape& s, const ChunkPlace& at, const SequenceCut& keys,
          std::int64_t half) {
  return keys.first[half] <= s.cut.first[at.half];
}

template <class T>
void write_result(const AttentionShape& s, T* ctx, const Acc<T>* sums) {
  parallel_tasks(s.batch * 2 * s.cut.chunk, [&](std::int64_t row) {
    T* const to = ctx + row * s.ctx_cols();
    const Acc<T>* const from = sums + row * s.ctx_cols();
    for_vectors<lanes_of<T>>(s.ctx_cols(), [&](std::int64_t d, auto amount) TRIREME_INLINE_LAMBDA {
      store(to + d, load(from + d, amount), amount);
    });
  });
}

}  // namespace

template <class T>
void ring_attention(const AttentionShape& s, const SequenceCut& keys, bool first, T* ctx,
                    Acc<T>* sums, Acc<T>* lse, const T* qkv, const T* kv) {
  using E = Engine<T>;
  check_chunks(s);
  TRIREME_CHECK(keys.chunk == s.cut.chunk);
  const std::int64_t heads = s.queries_per_group, chunk = s.cut.chunk;
  for (std::int64_t half = 0; half < 2; ++half) {
    forward_pieces<E>(chunk_places(s), heads, chunk, s.head_dim,
                      [&](std::int64_t i, std::int64_t head, std::int64_t count, std::int64_t row,
                          std::int64_t end) {
                        const ChunkPlace at(s, i);
                        if (!sees(s, at, keys, half)) return;
                        ForwardPass<E>::run_part(view_of_keys(s, qkv, kv, at, keys, half), head,
                                                 count, row, end, ctx_of_chunk(sums, s, at),
                                                 lse + i * heads * chunk, chunk,
                                                 !first || half > 0);
                      });
  }
  if (ctx) write_result(s, ctx, sums);
}

template <class T>
void ring_attention_grad(const AttentionShape& s, const SequenceCut& keys, bool first, T* dqkv,
                         Acc<T>* dkv, const T* qkv, const T* kv, const T* dctx, const Acc<T>* lse,
                         const Acc<T>* delta, void* workspace) {
  using Pass = BackwardPass<Engine<T>>;
  check_chunks(s);
  const std::int64_t heads = s.queries_per_group, chunk = s.cut.chunk, all = chunk_places(s);
  const auto grads_of = [&](std::int64_t i) {
    const ChunkPlace at(s, i);
    const Rows<const T> rows = ctx_of_chunk(dctx, s, at);
    GroupGrads<T> grads{.ctx = rows,
                        .dctx = rows,
                        .lse = lse + i * heads * chunk,
                        .lse_ld = chunk,
                        .dq = {},
                        .dk = {},
                        .dv = {},
                        .dq_sums = static_cast<Acc<T>*>(workspace) +
                                   i * Pass::dq_elements(heads, chunk, s.head_dim),
                        .delta = delta + i * heads * chunk};
    if (dqkv) {
      grads.dq = {dqkv + first_row(s, at) * s.qkv_cols() + group_column(s, at.group), s.qkv_cols()};
    }
    return grads;
  };
  const std::int64_t block = Pass::key_block(s.head_dim), key_cuts = ceil_div(chunk, block);
  const std::int64_t rows = 4 * Pass::tile_queries, row_cuts = ceil_div(chunk, rows);
  parallel_tasks(all * (key_cuts + heads * row_cuts), [&](std::int64_t task) {
    [[maybe_unused]] const typename Engine<T>::Session session;
    if (task < all * key_cuts) {
      // The place is that of the keys, which queries of both chunks may see.
      const ChunkPlace of_keys(s, task % all);
      const std::int64_t half = of_keys.half, begin = task / all * block;
      const std::int64_t end = begin + block < chunk ? begin + block : chunk;
      for (std::int64_t queries = 0; queries < 2; ++queries) {
        const std::int64_t i = task % all - half + queries;
        const ChunkPlace at(s, i);
        if (!sees(s, at, keys, half)) continue;
        GroupGrads<T> grads = grads_of(i);
        grads.dk_sums = rows_of_keys(dkv, s, at, keys, half);
        grads.dv_sums = grads.dk_sums.right_by(s.head_dim);
        Pass::template run<false, true>(
            view_of_keys(s, qkv, kv, at, keys, half), grads,
            {0, heads, 0, chunk, keys.first[half] + begin, keys.first[half] + end});
      }
      return;
    }
    task -= all * key_cuts;
    const std::int64_t i = task % all, head = task / all % heads;
    const std::int64_t row = task / all / heads * rows;
    const std::int64_t end = row + rows < chunk ? row + rows : chunk;
    const ChunkPlace at(s, i);
    const GroupGrads<T> grads = grads_of(i);
    for (std::int64_t half = 0; half < 2; ++half) {
      const bool writes = dqkv && half == 1;
      if (!sees(s, at, keys, half) && !writes) continue;
      const std::int64_t from = keys.first[half];
      const std::int64_t to = sees(s, at, keys, half) ? from + chunk : from;
      Pass::template run<true, false>(view_of_keys(s, qkv, kv, at, keys, half), grads,
                                      {.first_head = head,
                                       .last_head = head + 1,
                                       .first_query = row,
                                       .last_query = end,
                                       .first_key = from,
                                       .last_key = to,
                                       .resumes = !first || half > 0,
                                       .last = writes});
    }
  });
}

template <class T>
void ring_key_grads(const AttentionShape& s, T* dqkv, const Acc<T>* own, const Acc<T>* arrived) {
  const std::int64_t width = 2 * s.head_dim, rows = s.batch * 2 * s.cut.chunk;
  parallel_tasks(rows * s.groups, [&](std::int64_t i) {
    T* to = dqkv + i / s.groups * s.qkv_cols() + group_column(s, i % s.groups) +
            s.queries_per_group * s.head_dim;
    for_vectors<lanes_of<T>>(width, [&](std::int64_t d, auto amount) TRIREME_INLINE_LAMBDA {
      store(to + d, load(own + i * width + d, amount) + load(arrived + i * width + d, amount),
            amount);
    });
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot be parenthesised here.
#define TRIREME_INSTANTIATE(T)                                                                  \
  template void ring_attention<T>(const AttentionShape&, const SequenceCut&, bool, T*, Acc<T>*, \
                                  Acc<T>*, const T*, const T*);                                 \
  template void ring_attention_grad<T>(const AttentionShape&, const SequenceCut&, bool, T*,     \
                                       Acc<T>*, const T*, const T*, const T*, const Acc<T>*,    \
                                       const Acc<T>*, void*);                                   \
  template void ring_key_grads<T>(const AttentionShape&, T*, const Acc<T>*, const Acc<T>*);
// NOLINTEND(bugprone-macro-parentheses)
TRIREME_FOR_EACH_TYPE(TRIREME_INSTANTIATE)
#undef TRIREME_INSTANTIATE

}  // namespace trireme::cpu::TRIREME_ISA
