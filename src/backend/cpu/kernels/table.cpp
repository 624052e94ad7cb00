// The kernel table of one instruction set.
#include "backend/cpu/kernels/table.h"

#include "backend/cpu/fp8.h"
#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/routing.h"
#include "backend/cpu/sinks.h"
#include "backend/cpu/small_kernels.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
Kernels<T> make_table() {
  Kernels<T> table{};
#define TRIREME_SET(name) set_##name(table);
  TRIREME_KERNEL_FILES(TRIREME_SET)
#undef TRIREME_SET
  table.attention = at_once<attention<T>>;
  table.attention_grad = at_once<attention_grad<T>>;
  table.context_attention = at_once<context_attention<T>>;
  table.attention_delta = at_once<attention_delta<T>>;
  table.context_attention_grad = at_once<context_attention_grad<T>>;
  table.ring_attention = at_once<ring_attention<T>>;
  table.ring_attention_grad = at_once<ring_attention_grad<T>>;
  table.ring_key_grads = at_once<ring_key_grads<T>>;
  table.copy_blocks = at_once<copy_blocks<T>>;
  table.sum_blocks = at_once<sum_blocks<T>>;
  table.cached_attention = at_once<cached_attention<T>>;
  table.gather = at_once<gather<T>>;
  table.gather_grad = at_once<gather_grad<T>>;
  table.softmax_rescale = at_once<softmax_rescale<Acc<T>>>;
  table.token_loss = at_once<token_loss<Acc<T>>>;
  table.add_losses = at_once<add_losses<Acc<T>>>;
  table.route = at_once<route<T>>;
  table.route_grad = at_once<route_grad<T>>;
  table.routed_tokens = at_once<routed_tokens<Acc<T>>>;
  table.update_router_bias = at_once<update_router_bias<T>>;
  table.update_router_load = at_once<update_router_load<T>>;
  table.dispatch = at_once<dispatch<Acc<T>>>;
  table.fp8_largest = at_once<fp8_largest<T>>;
  table.fp8_round = at_once<fp8_round<T, Acc<T>>>;
  table.fp8_round_stored = at_once<fp8_round<T, T>>;
  table.fp8_bytes = at_once<fp8_bytes<T>>;
  table.fp8_inverse_scales = at_once<fp8_inverse_scales>;
  table.store_sums = at_once<store_sums<T>>;
  table.attention_sink = at_once<attention_sink<T>>;
  table.attention_sink_terms = at_once<attention_sink_terms<T>>;
  table.add_group_bias = at_once<add_group_bias<T>>;
  table.group_bias_grad = at_once<group_bias_grad<T>>;
  return table;
}

}  // namespace

template <class T>
const Kernels<T>& table() {
  static const Kernels<T> filled = make_table<T>();
  return filled;
}

#define TRIREME_TABLE(T) template const Kernels<T>& table<T>();
TRIREME_FOR_EACH_TYPE(TRIREME_TABLE)
#undef TRIREME_TABLE

}  // namespace trireme::cpu::TRIREME_ISA
