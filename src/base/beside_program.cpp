// Searches the folders of the program, of the shared library and of the build, in that order.
#include "base/beside_program.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace trireme {

namespace fs = std::filesystem;

namespace {

// Folder of the shared library that contains this code; empty if it is linked into the program.
fs::path folder_of_library() {
  static const char here = 0;
  Dl_info info{};
  link_map* library = nullptr;
  const bool found =
      dladdr1(&here, &info, reinterpret_cast<void**>(&library), RTLD_DL_LINKMAP) != 0;
  if (!found || !library || !*library->l_name) return {};  // the main program has an empty name
  std::error_code error;
  return fs::canonical(library->l_name, error).parent_path();
}

// The script that started this program with its own loader, or null.
const char* script_of_archive() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return program.filename().string().starts_with("ld-linux") ? std::getenv("TRIREME_PROGRAM")
                                                             : nullptr;
}

}  // namespace

fs::path find_beside_program(const std::string& file, const fs::path& built) {
  std::error_code error;
  std::vector<fs::path> folders;
  for (const fs::path& own :
       {fs::read_symlink("/proc/self/exe", error).parent_path(), folder_of_library()}) {
    if (!own.empty()) folders.insert(folders.end(), {own, own / "../lib/trireme"});
  }
  if (!script_of_archive()) folders.push_back(built);
  for (const fs::path& folder : folders) {
    fs::path path = folder / file;
    if (fs::exists(path, error)) return path;
  }
  return {};
}

std::vector<fs::path> find_on_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  std::vector<fs::path> found;
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder) / name;
    if (!folder.empty() && access(file.c_str(), X_OK) == 0) found.push_back(file);
  }
  return found;
}

std::vector<std::string> own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  const char* const script = script_of_archive();
  if (script && words.size() > 1) {
    words.erase(words.begin());  // the loader; the program's own file follows it
    program = script;
  }
  if (!program.empty() && !words.empty()) words[0] = program.string();
  return words;
}

}  // namespace trireme
