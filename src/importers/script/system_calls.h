// System call filter for what namespaces and Landlock do not restrict in the sandbox.
#pragma once

#include <string>

namespace trireme::script {

struct CallFilter {
  // Whether the program sees only its own processes and memory segments; otherwise signals and
  // System V segments are blocked.
  bool own_processes = false;
  // Whether files are private copies; otherwise their times, owners and modes are protected.
  bool own_files = false;
};

// Permanently drops the capabilities of this process and its children (root keeps
// those over files of other users), and filters their system calls: no
// connections (TCP, UDP, Unix sockets of either kind), no mounts, no namespaces,
// no access to other processes, no administrative operations. Returns "" or the
// error.
std::string filter_calls(const CallFilter& filter);

}  // namespace trireme::script
