// Checks the file and its folder.
#include "cli/new_file.h"

#include "base/error.h"
#include "base/file.h"

namespace trireme::cli {

void require_new_file(const std::string& path, const std::string& otherwise) {
  if (path.empty()) return;
  if (fs::exists(path))
    fail_input("'{}' already exists: choose another file{}", path,
               otherwise.empty() ? "" : "; " + otherwise);
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder))
    fail_input("cannot write '{}': the folder '{}' does not exist", path, folder.string());
}

}  // namespace trireme::cli
