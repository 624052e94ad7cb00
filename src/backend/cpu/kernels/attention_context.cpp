// Attention of context parallelism: a rank's two chunks of each sequence, against keys and queries
// of whole sequences. What a walk gives a query or a key does not depend on how it is cut, so these
// are the bits of attention over sequences that nobody cuts.
#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/attention_backward.h"
#include "backend/cpu/kernels/attention_groups.h"
#include "base/error.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// Pairs of a group of a sample and one of the rank's chunks of it, numbered chunk by chunk.
struct Place {
  std::int64_t sample, group, half;

  Place(const AttentionShape& s, std::int64_t index)
      : sample(index / (2 * s.groups)), group(index / 2 % s.groups), half(index % 2) {}
};

std::int64_t places(const AttentionShape& s) {
  return s.batch * s.groups * 2;
}

// The rank's row of a buffer at which a chunk begins.
std::int64_t first_row(const AttentionShape& s, const Place& at) {
  return (2 * at.sample + at.half) * s.cut.chunk;
}

// The queries of one chunk of a view of a whole sequence.
template <class T>
GroupView<T> chunk_of(GroupView<T> view, const AttentionShape& s, std::int64_t half) {
  const std::int64_t first = s.cut.first[half];
  view.q.data = view.q.row(first);
  if (view.first_visible) view.first_visible += first;
  view.queries = s.cut.chunk;
  view.first_query = first;
  return view;
}

template <class T>
GroupView<T> view_of_chunk(const AttentionShape& s, const T* qkv, const T* kv, const Place& at) {
  GroupView<T> view = chunk_of(view_of(s, qkv, at.sample, at.group), s, at.half);
  view.q = {qkv + first_row(s, at) * s.qkv_cols() + group_column(s, at.group), s.qkv_cols()};
  const std::int64_t columns = s.groups * 2 * s.head_dim;
  view.k = {kv + at.sample * s.seq * columns + at.group * 2 * s.head_dim, columns};
  view.v = view.k.right_by(s.head_dim);
  return view;
}

// Rows of one chunk in a buffer shaped like the rank's ctx.
template <class T>
Rows<T> ctx_of_chunk(T* ctx, const AttentionShape& s, const Place& at) {
  return {ctx + first_row(s, at) * s.ctx_cols() + at.group * s.queries_per_group * s.head_dim,
          s.ctx_cols()};
}

void check(const AttentionShape& s) {
  TRIREME_CHECK(s.head_dim >= 1 && s.head_dim <= max_head_dim && s.scale > 0);
  TRIREME_CHECK(s.causal && !s.lengths && s.cut.chunk > 0);
}

}  // namespace

template <class T>
void context_attention(const AttentionShape& s, T* ctx, Acc<T>* lse, const T* qkv, const T* kv) {
  check(s);
  forward_groups<Engine<T>>(
      places(s), s.queries_per_group, s.cut.chunk, s.head_dim,
      [&](std::int64_t i) { return view_of_chunk(s, qkv, kv, Place(s, i)); },
      [&](std::int64_t i) { return ctx_of_chunk(ctx, s, Place(s, i)); },
      [&](std::int64_t i) { return lse + i * s.queries_per_group * s.cut.chunk; });
}

template <class T>
void attention_delta(const AttentionShape& s, Acc<T>* delta, const T* ctx, const T* dctx) {
  check(s);
  parallel_tasks(places(s), [&](std::int64_t i) {
    const Place at(s, i);
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
  check(s);
  // What belongs to all queries of a sequence, from that of position `first` on.
  const auto grads_from = [&](const Place& at, std::int64_t first) {
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
  const auto rows_of_rank = [&](const Place& at) {
    return Rows<T>{dqkv + first_row(s, at) * s.qkv_cols() + group_column(s, at.group),
                   s.qkv_cols()};
  };
  const std::int64_t all = places(s), heads = s.queries_per_group, chunk = s.cut.chunk;
  const std::int64_t keys = Pass::key_block(s.head_dim), key_cuts = ceil_div(chunk, keys);
  const std::int64_t rows = 4 * Pass::tile_queries, row_cuts = ceil_div(chunk, rows);
  parallel_tasks(all * (key_cuts + heads * row_cuts), [&](std::int64_t task) {
    [[maybe_unused]] const typename Engine<T>::Session session;
    if (task < all * key_cuts) {
      const Place at(s, task % all);
      const std::int64_t first = s.cut.first[at.half], key = task / all * keys;
      GroupGrads<T> grads = grads_from(at, 0);
      // Walks number keys by their positions.
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
      const Place at(s, i);
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
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(bf16)
TRIREME_INSTANTIATE(f16)
TRIREME_INSTANTIATE(double)
#undef TRIREME_INSTANTIATE

}  // namespace trireme::cpu::TRIREME_ISA
