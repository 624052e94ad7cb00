// Fills the kernel table of one instruction set: each file sets the entries of its kernels.
#pragma once

#include "backend/cpu/kernels/storage_types.h"

namespace trireme::cpu::TRIREME_ISA {

#define TRIREME_SETTER(name) \
  template <class T>         \
  void set_##name(Kernels<T>& table);
TRIREME_KERNEL_FILES(TRIREME_SETTER)
#undef TRIREME_SETTER

// Makes a table entry: CPU kernels ignore the queue and run immediately.
template <auto kernel>
struct AtOnce;
template <class... Args, void (*kernel)(Args...)>
struct AtOnce<kernel> {
  static void run(Queue&, Args... args) { kernel(args...); }
};
template <auto kernel>
inline constexpr auto at_once = AtOnce<kernel>::run;

// All kernels of this instruction set.
template <class T>
const Kernels<T>& table();

}  // namespace trireme::cpu::TRIREME_ISA

// Instantiates one of these functions for every storage type.
#define TRIREME_INSTANTIATE_SETTER(T, setter) template void setter<T>(Kernels<T>&);
#define TRIREME_INSTANTIATE(setter) TRIREME_FOR_EACH_TYPE(TRIREME_INSTANTIATE_SETTER, setter)
