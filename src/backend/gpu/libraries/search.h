// Locates shared libraries of a GPU vendor where users have them: from the system, the vendor's
// packages, or Python packages installed with PyTorch.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace trireme::gpu {

struct FoundLibrary {
  void* handle = nullptr;  // from dlopen (RTLD_LOCAL); null: not found
  std::string path;        // of the library's file
  std::string problem;     // why it was not found, with advice
};

// Inputs of the search besides the file system; tests provide their own.
struct SearchPlaces {
  std::function<std::string(const char* variable)> environment;  // returns empty if unset
  std::filesystem::path root = "/";                              // root of the fixed folders
  std::string built_with;                                        // folder found by the build
  std::vector<std::filesystem::path> loaded;  // folders of the driver's and the runtime's libraries
};
// Search places of this process.
SearchPlaces search_places(std::string built_with);

// Folders in search order: TRIREME_GPU_LIBRARY_PATH; those of CUDA_HOME, CUDA_PATH and ROCM_PATH;
// the build's; the vendors' default install folders; those of libraries already loaded; and the
// packages of the active Python environment and of the first python3 on the PATH. The system's own
// search comes right after the first of them.
std::vector<std::filesystem::path> library_folders(const SearchPlaces& places);

// Loads the first of these names ("libcublasLt.so.13") that exists. The search continues past files
// that fail to load; `problem` names files of other versions.
FoundLibrary find_library(const std::vector<std::string>& names, const SearchPlaces& places);

}  // namespace trireme::gpu
