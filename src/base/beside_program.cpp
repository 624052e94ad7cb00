// The folders of the program, of the library, and of the build, in order.
#include "base/beside_program.h"

#include <dlfcn.h>
#include <link.h>

#include <vector>

namespace trireme {

namespace fs = std::filesystem;

namespace {

// Of the shared library that this code is a part of; empty where it is a part of the program.
fs::path folder_of_library() {
  static const char here = 0;
  Dl_info info{};
  link_map* library = nullptr;
  const bool found =
      dladdr1(&here, &info, reinterpret_cast<void**>(&library), RTLD_DL_LINKMAP) != 0;
  if (!found || !library || !*library->l_name) return {};  // the program's own name is empty
  std::error_code error;
  return fs::canonical(library->l_name, error).parent_path();
}

}  // namespace

fs::path find_beside_program(const std::string& file, const fs::path& built) {
  std::error_code error;
  std::vector<fs::path> folders;
  for (const fs::path& own :
       {fs::read_symlink("/proc/self/exe", error).parent_path(), folder_of_library()}) {
    if (!own.empty()) folders.insert(folders.end(), {own, own / "../lib/trireme"});
  }
  folders.push_back(built);
  for (const fs::path& folder : folders) {
    fs::path path = folder / file;
    if (fs::exists(path, error)) return path;
  }
  return {};
}

}  // namespace trireme
