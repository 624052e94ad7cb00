// Scratch of the attention kernels: one buffer per thread, allocated at its first use and kept.
#pragma once

#include <cstddef>

namespace trireme::cpu::TRIREME_ISA {

// Upper bound of a kernel's scratch in bytes. The system commits only pages that are touched.
inline constexpr std::size_t scratch_bytes = std::size_t{4} << 20;

// This thread's buffer, 64-byte aligned, with undefined contents.
void* attention_scratch();

template <class Layout>
Layout& scratch_as() {
  static_assert(sizeof(Layout) <= scratch_bytes);
  return *static_cast<Layout*>(attention_scratch());
}

}  // namespace trireme::cpu::TRIREME_ISA
