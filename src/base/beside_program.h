// Finds files installed with the program, executables on PATH, and the command to restart it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

// Finds `file` next to the program or in the lib folder of its installation; if another program has
// loaded the shared library, also next to that or in the lib folder of its installation; or in
// `built`, the build's folder (ignored in portable archives). Empty if not found.
std::filesystem::path find_beside_program(const std::string& file,
                                          const std::filesystem::path& built);

// Executable files of that name in the folders of PATH, in PATH's order.
std::vector<std::filesystem::path> find_on_path(const std::string& name);

// The command line that restarts this program: its file and its arguments. If a portable
// archive started it with its own loader, the archive's script (TRIREME_PROGRAM) and the
// arguments.
std::vector<std::string> own_command();

}  // namespace trireme
