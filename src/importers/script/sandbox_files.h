// Private file system of a process: copy-on-write layers over all real folders.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace trireme::script {

struct Layered {
  std::string problem;             // the error; "": the layers are set up
  std::vector<fs::path> writable;  // writable locations: copies and memory
  bool gaps = false;               // some of the user's folders could not be overlaid
};

// Gives the process such a file system; `scratch` is kept, with new memory at scratch/run. Folders
// that cannot be overlaid are read-only or absent. /dev has only /dev/null and similar devices;
// /run, /var/run and /dev/shm are empty except for the folders `shown`. Requires a private mount
// namespace.
Layered layer_files(const fs::path& scratch, const std::vector<fs::path>& shown);

// Mounts a new, read-only /proc, for the first process of a PID namespace. `most_processes`
// limits their number if the kernel counts per namespace; 0: no limit. Returns "" or the
// error.
std::string mount_proc(std::size_t most_processes);

}  // namespace trireme::script
