// Gates of heads, with or without a norm.
#include "backend/cpu/kernels/table.h"

namespace trireme::cpu::TRIREME_ISA {

template <class T>
void set_gate_heads(Kernels<T>&) {}
TRIREME_INSTANTIATE(set_gate_heads);

}  // namespace trireme::cpu::TRIREME_ISA
