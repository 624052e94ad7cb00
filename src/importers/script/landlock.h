// Landlock: the kernel forbids a process to write outside of given folders.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace trireme::script {

// What this kernel has; 0: nothing. 1 (Linux 5.13), 2 moves between folders (5.19).
int landlock_version();

// Forbids the process and its children to write outside of `writable` and the devices that hold
// nothing (/dev/null ...). Where the kernel knows how, it also keeps them from TCP, abstract
// sockets and other processes. "" or what was not possible.
std::string lock_files(const std::vector<fs::path>& writable);

}  // namespace trireme::script
