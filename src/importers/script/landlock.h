// Landlock: restricts a process's file writes to given folders.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace trireme::script {

// The kernel's Landlock version; 0: none. 1 is Linux 5.13, 2 adds moves between folders (5.19).
int landlock_version();

// Forbids the process and its children to write outside of `writable` and null devices (/dev/null
// ...). If the kernel supports it, also blocks TCP, abstract sockets and signals to other
// processes. Returns "" or the error.
std::string lock_files(const std::vector<fs::path>& writable);

}  // namespace trireme::script
