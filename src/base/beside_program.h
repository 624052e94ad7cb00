// Parts of the program that it loads when they are needed.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

// Where `file` lies: beside the program, in the lib folder of an installation, or in `built`, where
// the build has put it. Empty if nowhere.
std::filesystem::path find_beside_program(const std::string& file,
                                          const std::filesystem::path& built);

}  // namespace trireme
