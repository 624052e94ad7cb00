// Parts of the program that it loads when they are needed.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

// Where `file` lies: next to the program or in the lib folder of its installation; where another
// program has loaded the shared library, next to that or in the lib folder of its installation; or
// in `built`, where the build has put it. Empty if nowhere.
std::filesystem::path find_beside_program(const std::string& file,
                                          const std::filesystem::path& built);

}  // namespace trireme
