// Programs and their files: the parts that this one loads, what starts it again, others on PATH.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trireme {

// Finds `file`: next to the program or in the lib folder of its installation; if another program
// has loaded the shared library, next to that or in the lib folder of its installation; or in
// `built`, where the build has put it, except in portable archives. Empty if nowhere.
std::filesystem::path find_beside_program(const std::string& file,
                                          const std::filesystem::path& built);

// The executable files of that name in the folders of PATH, in their order.
std::vector<std::filesystem::path> find_on_path(const std::string& name);

// The words that start this program again: its file and its arguments. Where it was started with a
// loader of its own, as in a portable archive, the script that did so (TRIREME_PROGRAM) and the
// arguments.
std::vector<std::string> own_command();

}  // namespace trireme
