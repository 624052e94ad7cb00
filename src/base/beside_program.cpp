// Three folders, in order.
#include "base/beside_program.h"

namespace trireme {

namespace fs = std::filesystem;

fs::path find_beside_program(const std::string& file, const fs::path& built) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& folder : {program, program / "../lib/trireme", built}) {
    fs::path path = folder / file;
    if (fs::exists(path, error)) return path;
  }
  return {};
}

}  // namespace trireme
