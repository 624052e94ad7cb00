// Gated delta rule and state space of linear attention, chunk by chunk along each sequence.
#include "backend/cpu/kernels/attention_scratch.h"
#include "backend/cpu/kernels/delta_chunk.h"
#include "backend/cpu/kernels/delta_grad.h"
#include "backend/cpu/kernels/parallel.h"
#include "backend/cpu/kernels/table.h"
#include "base/error.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
void check_sizes(const DeltaShape& s) {
  TRIREME_CHECK(s.key_dim >= 1 && s.key_dim <= max_delta_dim);
  TRIREME_CHECK(s.value_dim >= 1 && s.value_dim <= max_delta_dim);
}

template <class T>
struct ForwardScratch {
  DeltaChunk<T> chunk;
  alignas(64) Acc<T> state[max_delta_dim * max_delta_dim];
  alignas(64) Acc<T> y[delta_chunk * max_delta_dim];
};

// Copies states [key_dim, value_dim] from the cache, which is empty where nothing came before.
template <class T>
void load_state(const DeltaHead<T>& head, Acc<T>* state, const Acc<T>* cached) {
  const DeltaShape& s = head.s;
  const std::int64_t wk = delta_key_cols(s), wv = delta_value_cols(s);
  const bool empty = !cached || s.places.lengths[head.sample] == 0;
  for (std::int64_t i = 0; i < wk; ++i) {
    const bool has = !empty && i < s.key_dim;
    copy_padded<Acc<T>>(state + i * wv, has ? cached + i * s.value_dim : nullptr,
                        has ? s.value_dim : 0, wv);
  }
}

template <class T>
void run_head(const DeltaHead<T>& head, T* y, const T* qkv, const Acc<T>* rates, Acc<T>* cached) {
  using A = Acc<T>;
  const DeltaShape& s = head.s;
  auto& scratch = scratch_as<ForwardScratch<T>>();
  DeltaChunk<T>& chunk = scratch.chunk;
  const std::int64_t count = s.places.new_tokens ? s.places.new_tokens[head.sample] : s.seq;
  const std::int64_t wk = delta_key_cols(s), wv = delta_value_cols(s);
  load_state(head, scratch.state, cached);
  for (std::int64_t first = 0; first < count; first += delta_chunk) {
    const std::int64_t rest = count - first;
    chunk.load_rows(head, qkv, rates, first, rest < delta_chunk ? rest : delta_chunk);
    chunk.multiply_keys(true);
    chunk.solve(scratch.y, scratch.state);
    for (std::int64_t i = 0; i < chunk.padded; ++i)
      scale_row<false>(chunk.q + i * wk, chunk.q + i * wk, chunk.from_state[i], wk);
    delta_product(scratch.y, wv, {chunk.q, wk, 1}, {scratch.state, wv}, chunk.padded, wv, wk,
                  false);
    delta_product(scratch.y, wv, {chunk.scores, delta_chunk, 1}, {chunk.u, wv}, chunk.padded, wv,
                  chunk.padded, true);
    chunk.advance(scratch.state);
    for (std::int64_t i = 0; s.state_space && i < chunk.count; ++i)
      scale_row<true>(scratch.y + i * wv, chunk.v + i * wv, chunk.skip, wv);
    for (std::int64_t i = 0; i < chunk.count; ++i) {
      T* const to = head.in_y(y, first + i);
      for_vectors<lanes_of<T>>(s.value_dim, [&](std::int64_t c, auto n) TRIREME_INLINE_LAMBDA {
        store(to + c, load(scratch.y + i * wv + c, n), n);
      });
    }
  }
  for (std::int64_t i = count; i < s.seq; ++i)
    __builtin_memset(head.in_y(y, i), 0, s.value_dim * sizeof(T));
  if (!cached || count == 0) return;
  for (std::int64_t i = 0; i < s.key_dim; ++i)
    __builtin_memcpy(cached + i * s.value_dim, scratch.state + i * wv, s.value_dim * sizeof(A));
}

template <class T>
void delta_rule(const DeltaShape& s, T* y, const T* qkv, const Acc<T>* rates, Acc<T>* state,
                void* /*workspace*/) {
  check_sizes<T>(s);
  parallel_tasks(s.batch * s.heads(), [&](std::int64_t task) {
    const FlushDenormals flush;
    Acc<T>* const own = state ? state + task * s.key_dim * s.value_dim : nullptr;
    run_head(DeltaHead<T>{s, task / s.heads(), task % s.heads()}, y, qkv, rates, own);
  });
}

template <class T>
void delta_rule_grad(const DeltaShape& s, const DeltaGradOperands<T>& o) {
  check_sizes<T>(s);
  parallel_tasks(s.batch * s.groups, [&](std::int64_t task) {
    const FlushDenormals flush;
    DeltaGroupGrad<T>(s, o, task / s.groups, task % s.groups).run();
  });
}

}  // namespace

template <class T>
void set_delta_rule(Kernels<T>& table) {
  table.delta_rule = at_once<delta_rule<T>>;
  table.delta_rule_grad = at_once<delta_rule_grad<T>>;
}
TRIREME_INSTANTIATE(set_delta_rule)

}  // namespace trireme::cpu::TRIREME_ISA
