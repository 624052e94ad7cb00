// The tables.
#include "backend/gpu/kernels/table.h"

#include "backend/gpu/kernels/ring.h"

namespace trireme::gpu {

template <class T>
const Kernels<T>& kernels() {
  static const Kernels<T> table = [] {
    Kernels<T> filled{};
#define TRIREME_SET(name) set_##name(filled);
    TRIREME_GPU_KERNEL_FILES(TRIREME_SET)
#undef TRIREME_SET
    set_ring(filled);  // made of other entries
    return filled;
  }();
  return table;
}
template const Kernels<float>& kernels();
template const Kernels<bf16>& kernels();
template const Kernels<f16>& kernels();

// No GPU computes in double: the entries stay empty, and such configurations are refused.
template <>
const Kernels<double>& kernels() {
  static const Kernels<double> none{};
  return none;
}

}  // namespace trireme::gpu
