// Builds the list of folders and loads libraries with dlopen.
#include "backend/gpu/libraries/search.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace trireme::gpu {
namespace {

namespace fs = std::filesystem;

constexpr const char* path_variable = "TRIREME_GPU_LIBRARY_PATH";

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Lists newer versions first, judging by their names.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) found.push_back(entry.path());
  std::ranges::sort(found, std::greater());
  return found;
}

bool begins(const fs::path& path, std::string_view start) {
  return path.filename().string().starts_with(start);
}

class Folders {
 public:
  void add(const fs::path& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) return;
    if (std::ranges::find(all_, folder) == all_.end()) all_.push_back(folder);
  }
  // Adds the library folders of a CUDA or ROCm installation.
  void add_installation(const fs::path& folder) {
    for (const char* below : {"lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"})
      add(folder / below);
  }
  // PREFIX/lib/python3.11/site-packages/nvidia/cublas/lib, and Conda's libraries in PREFIX/lib.
  void add_python(const fs::path& prefix) {
    for (const fs::path& version : entries(prefix / "lib")) {
      if (!begins(version, "python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& package : entries(version / packages / "nvidia")) add(package / "lib");
        add(version / packages / "torch" / "lib");  // PyTorch for ROCm
      }
    }
  }
  std::vector<fs::path> take() { return std::move(all_); }

 private:
  std::vector<fs::path> all_;
};

// Folder above bin/ of the first python3 on the PATH. Links are resolved in the folder only, since
// a virtual environment's python3 is a link out of it.
fs::path python_prefix(const std::string& path) {
  std::error_code error;
  for (const std::string& folder : parts_of(path)) {
    if (fs::exists(fs::path(folder) / "python3", error)) return fs::path(folder).parent_path();
  }
  return {};
}

std::vector<fs::path> chosen_folders(const SearchPlaces& places) {
  Folders folders;
  for (const std::string& folder : parts_of(places.environment(path_variable))) folders.add(folder);
  return folders.take();
}

std::string path_of(void* handle, const std::string& name) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && *map->l_name)
    return map->l_name;
  return name;
}

// Returns "libcublasLt.so" for "libcublasLt.so.13".
std::string stem_of(const std::string& name) {
  return name.substr(0, name.find(".so") + 3);
}

fs::path other_version(const std::string& name, const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    for (const fs::path& file : entries(folder))
      if (begins(file, stem_of(name) + ".")) return file;
  }
  return {};
}

}  // namespace

SearchPlaces search_places(std::string built_with) {
  SearchPlaces places;
  places.environment = [](const char* variable) -> std::string {
    const char* const value = std::getenv(variable);
    return value ? value : "";
  };
  places.built_with = std::move(built_with);
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        const fs::path file = info->dlpi_name;
        for (const char* name : {"libcuda.so", "libcudart.so", "libamdhip64.so"})
          if (begins(file, name))
            static_cast<SearchPlaces*>(to)->loaded.push_back(file.parent_path());
        return 0;
      },
      &places);
  return places;
}

std::vector<fs::path> library_folders(const SearchPlaces& places) {
  Folders folders;
  for (const fs::path& folder : chosen_folders(places)) folders.add(folder);
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH", "ROCM_PATH"}) {
    const std::string home = places.environment(variable);
    if (!home.empty()) folders.add_installation(home);
  }
  if (!places.built_with.empty()) folders.add(places.built_with);
  for (const auto& [parent, start] : {std::pair{"usr/local", "cuda"}, {"opt", "rocm"}}) {
    const fs::path above = places.root / parent;
    folders.add_installation(above / start);
    for (const fs::path& folder : entries(above))
      if (begins(folder, start)) folders.add_installation(folder);
  }
  for (const fs::path& folder : places.loaded) folders.add(folder);
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = places.environment(variable);
    if (!prefix.empty()) folders.add_python(prefix);
  }
  const fs::path python = python_prefix(places.environment("PATH"));
  if (!python.empty()) folders.add_python(python);
  const std::string conda = places.environment("CONDA_PREFIX");
  if (!conda.empty()) folders.add(fs::path(conda) / "lib");
  return folders.take();
}

FoundLibrary find_library(const std::vector<std::string>& names, const SearchPlaces& places) {
  const std::vector<fs::path> folders = library_folders(places);
  const std::size_t chosen = chosen_folders(places).size();
  std::string damaged;
  FoundLibrary found;
  const auto load = [&](const std::string& file, const std::string& name) {
    found.handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (found.handle) found.path = path_of(found.handle, name);
    return found.handle != nullptr;
  };
  const auto load_from = [&](std::size_t begin, std::size_t end, const std::string& name) {
    for (std::size_t i = begin; i < std::min(end, folders.size()); ++i) {
      const fs::path file = folders[i] / name;
      std::error_code error;
      if (!fs::exists(file, error)) continue;
      if (load(file.string(), name)) return true;
      if (damaged.empty()) damaged = dlerror();
    }
    return false;
  };
  for (const std::string& name : names) {
    if (load_from(0, chosen, name) || load(name, name) || load_from(chosen, folders.size(), name))
      return found;
  }
  const fs::path other = other_version(names.front(), folders);
  if (!damaged.empty()) {
    found.problem = fmt::format("{} cannot be loaded", damaged);
  } else if (!other.empty()) {
    found.problem = fmt::format("{} does not exist, but {} does: this build requires the former",
                                names.front(), other.string());
  } else {
    found.problem = fmt::format(
        "{} is neither in the system's search path nor in {}; set {} to the folder that contains "
        "it",
        names.front(),
        folders.empty() ? "a folder of CUDA, ROCm or Python"
                        : fmt::format("{} folders of CUDA, ROCm or Python", folders.size()),
        path_variable);
  }
  return found;
}

}  // namespace trireme::gpu
