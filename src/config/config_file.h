// Reads configuration files.
#pragma once

#include <string>

namespace trireme {

// The text of a configuration file. A path recipes/... that does not exist is that of a recipe
// installed with the program.
std::string read_config_file(const std::string& path);

}  // namespace trireme
