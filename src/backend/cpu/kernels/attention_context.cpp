// Attention with context parallelism: a rank's two chunks of each sequence, against keys and
// queries of whole sequences. Results of a walk do not depend on its partition, so the bits equal
// those of attention over unsplit sequences.
#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/attention_backward.h"
#include "backend/cpu/kernels/attention_chunks.h"

namespace trireme::cpu::TRIREME_ISA {

template <class T>
void context_attention(const AttentionShape& s, T* ctx, Acc<T>* lse, const T* qkv, const T* kv) {
  check_chunks(s);
  forward_groups<Engine<T>>(
      chunk_places(s), s.queries_per_group, s.cut.chunk, s.head_dim,
      [&](std::int64_t i) { return view_of_chunk(s, qkv, kv, ChunkPlace(s, i)); },
      [&](std::int64_t i) { return ctx_of_chunk(ctx, s, ChunkPlace(s, i)); },
      [&](std::int64_t i) { return lse + i * s.queries_per_group * s.cut.chunk; });
}

template <class T>
void attention_delta(const AttentionShape& s, Acc<T>* delta, const T* ctx, const T* dctx) {
  check_chunks(s);
  parallel_tasks(chunk_places(s), [&](std::int64_t i) {
    const ChunkPlace at(s, i);
    const auto x = ctx_of_chunk(ctx, s, at), y = ctx_of_chunk(dctx, s, at);
    Acc<T>* to = delta + i * s.queries_per_group * s.cut.chunk;
    for (std::int64_t head = 0; head < s.queries_per_group; ++head) {
      const std::int64_t column = head * s.head_dim;
      for (std::int64_t row = 0; row < s.cut.chunk; ++row) {
        *to++ = BackwardPass<Engine<T>>::dot(x.row(row) + column, y.row(row) + column, s.head_dim);
      }
    }
  });
}

template <class T>
void context_attention_grad(const AttentionShape& s, T* dqkv, const T* qkv, const T* dctx,
                            const Acc<T>* lse, const Acc<T>* delta, void* workspace) {
  using Pass = BackwardPass<Engine<T>>;
  constexpr std::int64_t drawn_keys = AttentionDropout<Acc<T>>::block_keys;
  check_chunks(s);
  // Data of all queries of a sequence, starting at the query at position `first`.
  const auto grads_from = [&](const ChunkPlace& at, std::int64_t first) {
    const std::int64_t stats =
        (at.sample * s.groups + at.group) * s.queries_per_group * s.seq + first;
    Rows<const T> rows = ctx_rows(dctx, s, at.sample, at.group);
    rows.data = rows.row(first);
    return GroupGrads<T>{.ctx = rows,
                         .dctx = rows,
                         .lse = lse + stats,
                         .lse_ld = s.seq,
                         .dq = {},
                         .dk = {},
                         .dv = {},
                         .dq_sums = nullptr,
                         .delta = delta + stats};
  };
  const auto rows_of_rank = [&](const ChunkPlace& at) {
    return Rows<T>{dqkv + first_row(s, at) * s.qkv_cols() + group_column(s, at.group),
                   s.qkv_cols()};
  };
  const std::int64_t all = chunk_places(s), heads = s.queries_per_group, chunk = s.cut.chunk;
  const std::int64_t keys = Pass::key_block(s.head_dim), key_cuts = ceil_div(chunk, keys);
  const std::int64_t rows = 4 * Pass::tile_queries, row_cuts = ceil_div(chunk, rows);
  parallel_tasks(all * (key_cuts + heads * row_cuts), [&](std::int64_t task) {
    [[maybe_unused]] const typename Engine<T>::Session session;
    if (task < all * key_cuts) {
      const ChunkPlace at(s, task % all);
      const std::int64_t first = s.cut.first[at.half], key = task / all * keys;
      GroupGrads<T> grads = grads_from(at, 0);
      // Walks number keys by position.
      const Rows<T> own = rows_of_rank(at).right_by(heads * s.head_dim);
      grads.dk = {own.data - first * own.stride, own.stride};
      grads.dv = grads.dk.right_by(s.head_dim);
      Pass::template run<false, true>(
          view_of(s, qkv, at.sample, at.group), grads,
          {0, heads, 0, s.seq, (first + key) / drawn_keys * drawn_keys,
           first + (key + keys < chunk ? key + keys : chunk), first + key});
    } else {
      task -= all * key_cuts;
      const std::int64_t i = task % all, head = task / all % heads;
      const std::int64_t row = task / all / heads * rows;
      const ChunkPlace at(s, i);
      const std::int64_t first = s.cut.first[at.half];
      GroupGrads<T> grads = grads_from(at, first);
      grads.dq = rows_of_rank(at);
      grads.dq_sums =
          static_cast<Acc<T>*>(workspace) + i * Pass::dq_elements(heads, chunk, s.head_dim);
      const GroupView<T> view = chunk_of(view_of(s, qkv, at.sample, at.group), s, at.half);
      Pass::template run<true, false>(
          view, grads,
          {head, head + 1, row, row + rows < chunk ? row + rows : chunk, 0, first + chunk});
    }
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot be parenthesised here.
#define TRIREME_INSTANTIATE(T)                                                                \
  template void context_attention<T>(const AttentionShape&, T*, Acc<T>*, const T*, const T*); \
  template void attention_delta<T>(const AttentionShape&, Acc<T>*, const T*, const T*);       \
  template void context_attention_grad<T>(const AttentionShape&, T*, const T*, const T*,      \
                                          const Acc<T>*, const Acc<T>*, void*);
// NOLINTEND(bugprone-macro-parentheses)
TRIREME_FOR_EACH_TYPE(TRIREME_INSTANTIATE)
#undef TRIREME_INSTANTIATE

}  // namespace trireme::cpu::TRIREME_ISA
