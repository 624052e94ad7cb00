// Finds the shared libraries of a GPU's vendor where users have them: installed by the system, by
// the vendor, or among the Python packages that PyTorch brings along.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace trireme::gpu {

struct FoundLibrary {
  void* handle = nullptr;  // of dlopen, with local symbols; null: there is none
  std::string path;        // of the file
  std::string problem;     // why there is none, and what to do
};

// What the search depends on besides the files of the machine; a test gives its own.
struct SearchPlaces {
  std::function<std::string(const char* variable)> environment;  // empty: it is not set
  std::filesystem::path root = "/";                              // of the fixed folders
  std::string built_with;                                        // folder that the build has found
  std::vector<std::filesystem::path> loaded;  // folders of the driver's and the runtime's libraries
};
// Those of this process.
SearchPlaces search_places(std::string built_with);

// Folders in the order in which they are searched: TRIREME_GPU_LIBRARY_PATH, folders of
// CUDA_HOME, CUDA_PATH and ROCM_PATH, that of the build, those where vendors install, those of
// libraries that are loaded already, and packages of the Python environments: the active one and
// that of the first python3 on the PATH. The system's own search comes after the first of them.
std::vector<std::filesystem::path> library_folders(const SearchPlaces& places);

// Loads the first of these names ("libcublasLt.so.13") that there is. A file that cannot be loaded
// is not the end of the search; a file of another version is named in `problem`.
FoundLibrary find_library(const std::vector<std::string>& names, const SearchPlaces& places);

}  // namespace trireme::gpu
