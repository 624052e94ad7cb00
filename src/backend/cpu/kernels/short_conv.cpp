// Causal convolution of linear attention.
#include "backend/cpu/kernels/table.h"

namespace trireme::cpu::TRIREME_ISA {

template <class T>
void set_short_conv(Kernels<T>&) {}
TRIREME_INSTANTIATE(set_short_conv);

}  // namespace trireme::cpu::TRIREME_ISA
