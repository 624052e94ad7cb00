// Ring attention, made of the entries of attention.
#pragma once

#include "backend/kernels.h"

namespace trireme::gpu {

template <class T>
void set_ring(Kernels<T>& table);

}  // namespace trireme::gpu
