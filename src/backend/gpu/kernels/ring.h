// Ring attention, built on the attention entries of the kernel table.
#pragma once

#include "backend/kernels.h"

namespace trireme::gpu {

template <class T>
void set_ring(Kernels<T>& table);

}  // namespace trireme::gpu
