// Attention against a KV cache: few rows directly, many in tiles.
#include "backend/cpu/kernels/attention.h"

#include "backend/cpu/kernels/attention_groups.h"
#include "backend/cpu/kernels/attention_rows.h"
#include "base/error.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// One group of one sequence of cached attention; the view's keys and values are the cache.
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
    ctx = {ctx_data + sequence * s.seq * ctx_cols + group * s.queries_per_group * s.head_dim,
           ctx_cols};
    view = {.rule = s};
    view.rule.causal = true;
    view.queries = s.seq;
    view.first_query = lengths[sequence];
    view.keys = lengths[sequence] + s.seq;
    view.first_head = s.first_head + group * s.queries_per_group;
    const std::int64_t cols = group_column(s, s.groups);
    view.q = {qkv + sequence * s.seq * cols + group_column(s, group), cols};
    view.k = {keys.data, keys.stride};
    view.v = {values.data, values.stride};
  }

  // Copies the new keys and values into the cache.
  void append() const {
    const auto k = view.q.right_by(view.heads() * view.head_dim()), v = k.right_by(view.head_dim());
    for (std::int64_t i = 0; i < view.queries; ++i) {
      __builtin_memcpy(keys.row(view.first_query + i), k.row(i), view.head_dim() * sizeof(T));
      __builtin_memcpy(values.row(view.first_query + i), v.row(i), view.head_dim() * sizeof(T));
    }
  }
};

}  // namespace

template <class T>
void cached_attention(const CachedAttentionShape& s, T* ctx, Acc<T>* lse, const T* qkv,
                      T* key_cache, T* value_cache, const std::int32_t* lengths, Acc<T>*) {
  TRIREME_CHECK(s.head_dim >= 1 && s.head_dim <= max_head_dim && s.scale > 0);
  constexpr std::int64_t few_rows = 8;
  const std::int64_t groups = s.batch * s.groups;
  const auto at = [&](std::int64_t i) {
    return CachedGroup<T>(s, ctx, qkv, key_cache, value_cache, lengths, i);
  };
  const auto lse_of = [&](std::int64_t i) {
    return lse ? lse + i * s.queries_per_group * s.seq : nullptr;
  };
  if (s.seq * s.queries_per_group <= few_rows) {
    parallel_tasks(groups, [&](std::int64_t task) {
      const auto group = at(task);
      group.append();
      RowAttention<T>::run(group.view, group.ctx, lse_of(task));
    });
    return;
  }
  parallel_tasks(groups, [&](std::int64_t task) { at(task).append(); });
  forward_groups<Engine<T>>(
      groups, s.queries_per_group, s.seq, s.head_dim, [&](std::int64_t i) { return at(i).view; },
      [&](std::int64_t i) { return at(i).ctx; }, lse_of);
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot be parenthesised here.
#define TRIREME_INSTANTIATE(T)                                                                  \
  template void cached_attention<T>(const CachedAttentionShape&, T*, Acc<T>*, const T*, T*, T*, \
                                    const std::int32_t*, Acc<T>*);
// NOLINTEND(bugprone-macro-parentheses)
TRIREME_FOR_EACH_TYPE(TRIREME_INSTANTIATE)
#undef TRIREME_INSTANTIATE

}  // namespace trireme::cpu::TRIREME_ISA
