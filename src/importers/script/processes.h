// Resource usage of a process's descendants.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace trireme::script {

struct Usage {
  std::size_t processes = 0;
  std::uint64_t bytes = 0;           // resident memory
  std::chrono::milliseconds time{};  // CPU time, including exited processes
};

// Total over all descendants of a process, excluding itself.
Usage usage_below(pid_t process);

}  // namespace trireme::script
