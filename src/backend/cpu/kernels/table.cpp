// The table of kernels of one instruction set.
#include "backend/cpu/kernels/table.h"

#include "backend/cpu/kernels/attention.h"

namespace trireme::cpu::TRIREME_ISA {
namespace {

template <class T>
Kernels<T> make_table() {
  Kernels<T> table{};
  set_norm(table);
  set_activation(table);
  set_elementwise(table);
  set_rope(table);
  set_embedding(table);
  set_cross_entropy(table);
  set_reduce(table);
  set_optimizer(table);
  table.attention = attention<T>;
  table.attention_grad = attention_grad<T>;
  table.attention_workspace = attention_workspace<T>;
  table.cached_attention = cached_attention<T>;
  return table;
}

}  // namespace

template <class T>
const Kernels<T>& table() {
  static const Kernels<T> filled = make_table<T>();
  return filled;
}

template const Kernels<float>& table<float>();
template const Kernels<bf16>& table<bf16>();
template const Kernels<f16>& table<f16>();
template const Kernels<double>& table<double>();

}  // namespace trireme::cpu::TRIREME_ISA
