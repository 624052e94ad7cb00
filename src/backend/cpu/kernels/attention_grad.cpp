// Attention backward.
#include "backend/cpu/kernels/attention.h"

#include "backend/cpu/kernels/attention_backward.h"
#include "backend/cpu/kernels/attention_groups.h"
#include "base/error.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

// State of one group's backward pass.
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
  out.grads = {
      ctx_rows(ctx, s, sample, group),
      ctx_rows(dctx, s, sample, group),
      lse + index * s.queries_per_group * s.seq,
      s.seq,
      grads.q,
      grads.k,
      grads.v,
      static_cast<Acc<T>*>(workspace) +
          index * BackwardPass<Engine<T>>::dq_elements(s.queries_per_group, s.seq, s.head_dim)};
  return out;
}

// One walk computes all gradients of a group with five products per tile. If there are too few
// groups for the threads, walks by key blocks compute dk and dv (four products) and walks by query
// blocks compute dq (three): more work and more tasks, but the same bits.
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
    if (task < key_tasks) {  // early keys are seen by most queries: longest tasks first
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

}  // namespace

template <class T>
void attention_grad(const AttentionShape& s, const AttentionGradOperands<T>& o) {
  TRIREME_CHECK(s.head_dim >= 1 && s.head_dim <= max_head_dim && s.scale > 0 && !o.dbias);
  const auto group = [&](std::int64_t index) {
    return backward_group(s, o.dqkv, o.dctx, o.qkv, o.ctx, o.lse, o.workspace, index);
  };
  if (groups_fill_threads(s.batch * s.groups)) {
    backward_whole<Engine<T>>(s, group);
  } else {
    backward_split<Engine<T>>(s, group);
  }
}

#define TRIREME_INSTANTIATE(T) \
  template void attention_grad(const AttentionShape&, const AttentionGradOperands<T>&);
TRIREME_FOR_EACH_TYPE(TRIREME_INSTANTIATE)
#undef TRIREME_INSTANTIATE

}  // namespace trireme::cpu::TRIREME_ISA
