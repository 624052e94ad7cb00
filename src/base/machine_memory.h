// How much memory this process may use.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// The machine's memory, or less where the process's control group has a limit.
std::int64_t machine_memory_bytes();

// The smallest memory limit on the control group of a process and on its ancestors (batch systems,
// systemd, containers), versions 1 and 2; the largest number if there is none. `groups` is a file
// like /proc/self/cgroup, `root` where the hierarchies are mounted.
std::int64_t control_group_memory_bytes(const std::string& groups, const std::string& root);

}  // namespace trireme
