// The GPU's kernel tables.
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
    set_ring(filled);  // built from other entries
    return filled;
  }();
  return table;
}
template const Kernels<float>& kernels();
template const Kernels<bf16>& kernels();
template const Kernels<f16>& kernels();

// GPUs do not compute in double: the entries stay empty, and such configurations are rejected.
template <>
const Kernels<double>& kernels() {
  static const Kernels<double> none{};
  return none;
}

}  // namespace trireme::gpu
