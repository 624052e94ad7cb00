// Checks output files that commands write at their end, before the work begins.
#pragma once

#include <string>

namespace trireme::cli {

// Rejects (exit code 2) a file that already exists or whose folder does not, since the work would
// be lost. "": no file is written. `otherwise`: alternative advice to choosing another name.
void require_new_file(const std::string& path, const std::string& otherwise = "");

}  // namespace trireme::cli
