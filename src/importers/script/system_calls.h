// A filter of system calls: what namespaces and Landlock leave open for a program in the sandbox.
#pragma once

#include <string>

namespace trireme::script {

struct CallFilter {
  // The processes and segments of memory that the program sees are its own alone; otherwise signals
  // and System V's segments are kept from it.
  bool own_processes = false;
  // Files are copies of its own; otherwise times, owners and modes of files stay as they are.
  bool own_files = false;
};

// Takes the capabilities from this process and its children, for good (root keeps those over files
// of other users), and filters their system
// calls: no connection to anything (TCP, UDP, unix sockets of either kind), no mounts, no
// namespaces, no look into other processes, nothing that only an administrator may do. "" or what
// was not possible.
std::string filter_calls(const CallFilter& filter);

}  // namespace trireme::script
