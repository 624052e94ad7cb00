// Files that commands write at their end, looked at before the work begins.
#pragma once

#include <string>

namespace trireme::cli {

// Refused (exit code 2): a file that exists already, and one in a folder that does not; the work
// would be lost. "": no file is written. `otherwise`: what else than another name would do.
void require_new_file(const std::string& path, const std::string& otherwise = "");

}  // namespace trireme::cli
