// The two ways in which the kernel keeps files as they are, for the process that calls them.
#pragma once

#include <string>

#include "base/file.h"

namespace trireme::script {

// Gives the process a file system of its own: every folder is a copy-on-write layer above the real
// one, and `scratch` stays as it is with fresh memory at scratch/run. Needs a mount namespace of
// the process's own. "" or what was not possible.
std::string layer_files(const fs::path& scratch);

// Forbids the process and its children to write outside of `scratch` and /dev, and, where the
// kernel knows how, to use TCP and to send signals to others. "" or what was not possible.
std::string lock_files(const fs::path& scratch);

}  // namespace trireme::script
