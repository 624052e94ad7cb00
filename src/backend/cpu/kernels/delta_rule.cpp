// Gated delta rule of linear attention.
#include "backend/cpu/kernels/table.h"

namespace trireme::cpu::TRIREME_ISA {

template <class T>
void set_delta_rule(Kernels<T>&) {}
TRIREME_INSTANTIATE(set_delta_rule);

}  // namespace trireme::cpu::TRIREME_ISA
