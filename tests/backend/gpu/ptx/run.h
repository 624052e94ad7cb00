// Runs a kernel: blocks sequentially, warps in turns from barrier to barrier.
#pragma once

#include <cstdint>

#include "backend/gpu/ptx/machine.h"

namespace trireme::ptx {

// Counts of what ran.
struct Count {
  std::uint64_t warp_instructions = 0, thread_instructions = 0;
};

// Throws std::runtime_error with kernel, block, thread, line and statement for an illegal
// operation: an access to nonexistent memory, a race in shared memory, a barrier or an exchange
// that not all lanes reach, or a read of a lane that does not participate.
Count run(const Launch& launch);

}  // namespace trireme::ptx
