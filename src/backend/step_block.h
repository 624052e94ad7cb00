// What changes from step to step. It lies in the device's memory and kernels read it when they run,
// so that work which was enqueued, captured or recorded once is right for every step.
#pragma once

#include <cstdint>

namespace trireme {

struct StepBlock {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  double grad_scale = 1;  // loss scale / tokens of the global batch
};

}  // namespace trireme
