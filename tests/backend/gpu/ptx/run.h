// Runs a kernel: blocks one after another, warps in turns from barrier to barrier.
#pragma once

#include <cstdint>

#include "backend/gpu/ptx/machine.h"

namespace trireme::ptx {

// What ran.
struct Count {
  std::uint64_t warp_instructions = 0, thread_instructions = 0;
};

// Throws std::runtime_error that names kernel, block, thread, line and statement where the program
// does what it must not do: an access to memory that is not there, a race in shared memory, a
// barrier or an exchange that not all reach, a lane read that takes no part.
Count run(const Launch& launch);

}  // namespace trireme::ptx
