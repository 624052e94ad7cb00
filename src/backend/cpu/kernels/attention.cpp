// Attention forward.
#include "backend/cpu/kernels/attention.h"

#include "backend/cpu/kernels/attention_groups.h"
#include "base/error.h"

namespace trireme::cpu::TRIREME_ISA {

template <class T>
void attention(const AttentionShape& s, T* ctx, Acc<T>* lse, const T* qkv, void*) {
  TRIREME_CHECK(s.head_dim >= 1 && s.head_dim <= max_head_dim && s.scale > 0);
  forward_groups<Engine<T>>(
      s.batch * s.groups, s.queries_per_group, s.seq, s.head_dim,
      [&](std::int64_t i) { return view_of(s, qkv, i / s.groups, i % s.groups); },
      [&](std::int64_t i) { return ctx_rows(ctx, s, i / s.groups, i % s.groups); },
      [&](std::int64_t i) { return lse + i * s.queries_per_group * s.seq; });
}

#define TRIREME_INSTANTIATE(T) \
  template void attention<T>(const AttentionShape&, T*, Acc<T>*, const T*, void*);
TRIREME_FOR_EACH_TYPE(TRIREME_INSTANTIATE)
#undef TRIREME_INSTANTIATE

}  // namespace trireme::cpu::TRIREME_ISA
