// Attention sinks on the CPU, applied after attention without them: with lse' = log(exp(lse) +
// exp(sink)) the context is scaled by exp(lse - lse'). The gradient of attention is then right with
// the new context and lse', and the sink's gradient is the sum of -exp(sink - lse') times the dot
// product of the context and its gradient.
#include "backend/cpu/sinks.h"
#include "base/portable_math.h"

#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"

namespace trireme::cpu {
namespace {

// The position of lse that a row and a head have.
class SinkRows {
 public:
  explicit SinkRows(const AttentionShape& s)
      : groups_(s.groups),
        per_group_(s.queries_per_group),
        chunks_(s.cut.chunk > 0 ? 2 : 1),
        length_(s.cut.chunk > 0 ? s.cut.chunk : s.seq) {}

  std::int64_t rows(const AttentionShape& s) const { return s.batch * chunks_ * length_; }
  std::int64_t statistic(std::int64_t row, std::int64_t head) const {
    const std::int64_t chunk = row / length_, sample = chunk / chunks_;
    const std::int64_t group = sample * groups_ + head / per_group_;
    return ((group * chunks_ + chunk % chunks_) * per_group_ + head % per_group_) * length_ +
           row % length_;
  }

 private:
  std::int64_t groups_, per_group_, chunks_, length_;
};

// Calls body(row, head) for all of them.
template <class Body>
void for_rows_and_heads(const AttentionShape& s, const Body& body) {
  constexpr std::int64_t elements_at_once = 16 << 10;
  const std::int64_t grain = std::max<std::int64_t>(1, elements_at_once / s.ctx_cols());
  parallel_ranges(SinkRows(s).rows(s), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t head = 0; head < s.heads(); ++head) body(row, head);
  });
}

}  // namespace

template <class T>
void attention_sink(const AttentionShape& s, T* ctx, Acc<T>* lse, const T* sinks) {
  using A = Acc<T>;
  const SinkRows rows(s);
  for_rows_and_heads(s, [&](std::int64_t row, std::int64_t head) {
    A& own = lse[rows.statistic(row, head)];
    const A sink = static_cast<A>(sinks[head]), largest = std::max(own, sink);
    const A all = largest + math::log(math::exp(own - largest) + math::exp(sink - largest));
    const A keeps = math::exp(own - all);
    own = all;
    T* const to = ctx + row * s.ctx_cols() + head * s.head_dim;
    for (std::int64_t d = 0; d < s.head_dim; ++d)
      to[d] = static_cast<T>(keeps * static_cast<A>(to[d]));
  });
}

template <class T>
void attention_sink_terms(const AttentionShape& s, Acc<T>* terms, const T* ctx, const Acc<T>* lse,
                          const T* dctx, const T* sinks) {
  using A = Acc<T>;
  const SinkRows rows(s);
  for_rows_and_heads(s, [&](std::int64_t row, std::int64_t head) {
    const std::int64_t at = row * s.ctx_cols() + head * s.head_dim;
    A product = 0;
    for (std::int64_t d = 0; d < s.head_dim; ++d)
      product += static_cast<A>(ctx[at + d]) * static_cast<A>(dctx[at + d]);
    const A weight = math::exp(static_cast<A>(sinks[head]) - lse[rows.statistic(row, head)]);
    terms[row * s.heads() + head] = -weight * product;
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot appear in parentheses here.
#define TRIREME_INSTANTIATE(T)                                                                \
  template void attention_sink(const AttentionShape&, T*, Acc<T>*, const T*);                 \
  template void attention_sink_terms(const AttentionShape&, Acc<T>*, const T*, const Acc<T>*, \
                                     const T*, const T*);
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(bf16)
TRIREME_INSTANTIATE(f16)
TRIREME_INSTANTIATE(double)
#undef TRIREME_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace trireme::cpu
