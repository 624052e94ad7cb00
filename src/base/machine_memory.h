// Amount of memory that this process may use.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// The machine's memory, or the cgroup limit if that is lower.
std::int64_t machine_memory_bytes();

// Smallest memory limit of a process's cgroup and its ancestors (batch systems, systemd,
// containers), for cgroup v1 and v2; INT64_MAX if there is none. `groups` is a file like
// /proc/self/cgroup, `root` the mount point of the hierarchies.
std::int64_t control_group_memory_bytes(const std::string& groups, const std::string& root);

}  // namespace trireme
