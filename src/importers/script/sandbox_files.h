// A file system of a process's own: every folder is a copy-on-write layer above the real one.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace trireme::script {

struct Layered {
  std::string problem;             // what was not possible; "": the layers are there
  std::vector<fs::path> writable;  // what can be changed: copies and memory
  bool gaps = false;               // some folders of the user's could not be layered
};

// Gives the process such a file system; `scratch` stays as it is, with fresh memory at scratch/run.
// What cannot be layered is only read, or absent. /dev holds /dev/null and its like alone; /run,
// /var/run and /dev/shm are empty but for the folders `shown`. Needs a mount namespace of the
// process's own.
Layered layer_files(const fs::path& scratch, const std::vector<fs::path>& shown);

// A fresh /proc that is only read, for the first process of a process namespace. `most_processes`:
// how many there may be, where the kernel counts them by namespace; 0: any number. "" or what was
// not possible.
std::string mount_proc(std::size_t most_processes);

}  // namespace trireme::script
