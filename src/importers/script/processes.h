// Common to the processes below one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace trireme::script {

struct Usage {
  std::size_t processes = 0;
  std::uint64_t bytes = 0;           // of memory that they hold
  std::chrono::milliseconds time{};  // of processors, also that of those which have ended
};

// Of all descendants of a process, itself left out.
Usage usage_below(pid_t process);

}  // namespace trireme::script
