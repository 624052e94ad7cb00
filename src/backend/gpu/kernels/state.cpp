// Sums of gradients and optimiser states.
#include "backend/gpu/kernels/table.h"
#include "backend/gpu/launch.h"

namespace trireme::gpu {

const StateKernels& state_kernels() {
  static const StateKernels table{};
  return table;
}

}  // namespace trireme::gpu
