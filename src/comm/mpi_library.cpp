// Locates MPI libraries by the file names of their ABIs.
#include "comm/mpi_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "base/beside_program.h"
#include "base/error.h"
#include "base/file.h"
#include "comm/mpi/trireme_mpi.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

struct Interface {
  const char* part;                      // the MPI part compiled for it
  std::array<const char*, 2> libraries;  // Debian uses another name for MPICH
};

const Interface& names_of(MpiInterface interface) {
  static constexpr Interface openmpi{"libtrireme_mpi_openmpi.so", {"libmpi.so.40", nullptr}};
  static constexpr Interface mpich{"libtrireme_mpi_mpich.so", {"libmpi.so.12", "libmpich.so.12"}};
  return interface == MpiInterface::openmpi ? openmpi : mpich;
}

constexpr MpiInterface interfaces[] = {MpiInterface::openmpi, MpiInterface::mpich};

fs::path part_for(MpiInterface interface) {
  return find_beside_program(names_of(interface).part, TRIREME_PLUGIN_DIR);
}

// ABI of the library a file was linked to, from the library's name in the file.
std::optional<MpiInterface> linked_interface(const fs::path& file) {
  constexpr std::size_t kLargestPart = 64 << 20;
  const std::string bytes = read_file(file, kLargestPart);
  for (const MpiInterface interface : interfaces) {
    for (const char* library : names_of(interface).libraries)
      if (library && bytes.find(library) != bytes.npos) return interface;
  }
  return {};
}

std::vector<fs::path> possible_launchers() {
  std::vector<fs::path> launchers;
  // Ranks have it too, and look for their library near it.
  if (const char* const chosen = std::getenv("TRIREME_MPIRUN"); chosen && *chosen == '/')
    launchers.emplace_back(chosen);
  for (const char* name : {"mpiexec", "mpirun", "mpiexec.mpich", "mpiexec.openmpi"})
    for (const fs::path& file : find_on_path(name)) launchers.push_back(file);
  return launchers;
}

// The library in an installation's folders, given the folder of its programs.
fs::path library_near(const fs::path& programs, MpiInterface interface) {
  for (const char* folder : {"../lib", "../lib64", "../lib/x86_64-linux-gnu"}) {
    for (const char* name : names_of(interface).libraries) {
      const fs::path file = name ? programs / folder / name : fs::path{};
      std::error_code ignored;
      if (name && fs::exists(file, ignored)) return file;
    }
  }
  return {};
}

fs::path library_of_launcher(const fs::path& launcher, MpiInterface interface) {
  // Tries the folder of the link first, then that of its target.
  if (const fs::path file = library_near(launcher.parent_path(), interface); !file.empty())
    return file;
  std::error_code ignored;
  const fs::path target = fs::canonical(launcher, ignored);
  return target.empty() ? fs::path{} : library_near(target.parent_path(), interface);
}

}  // namespace

std::optional<MpiInterface> interface_of_launch(const GetVariable& get) {
  if (get("OMPI_COMM_WORLD_SIZE") || get("PMIX_RANK")) return MpiInterface::openmpi;
  if (get("PMI_SIZE")) return MpiInterface::mpich;
  return {};
}

MpiPart find_mpi_part(const GetVariable& get) {
  const std::optional<MpiInterface> wanted = interface_of_launch(get);
  const fs::path built = find_beside_program(TRIREME_MPI_FILE, TRIREME_PLUGIN_DIR);
  if (!built.empty()) {
    const std::optional<MpiInterface> linked = wanted ? linked_interface(built) : wanted;
    if (!linked || linked == wanted) return {built, {}};
  }
  if (wanted) {
    const fs::path part = part_for(*wanted);
    return part.empty() ? MpiPart{built, {}} : MpiPart{part, wanted};
  }
  for (const MpiInterface interface : interfaces) {
    const fs::path part = part_for(interface);
    if (!part.empty() && !find_mpi_launcher(interface).empty()) return {part, interface};
  }
  return {};
}

bool has_parts_for_interfaces() {
  return std::ranges::any_of(interfaces, [](MpiInterface one) { return !part_for(one).empty(); });
}

fs::path find_mpi_launcher(MpiInterface interface) {
  for (const fs::path& launcher : possible_launchers())
    if (!library_of_launcher(launcher, interface).empty()) return launcher;
  return {};
}

std::string load_mpi_library(MpiInterface interface) {
  std::vector<std::string> files;
  for (const fs::path& launcher : possible_launchers()) {
    const fs::path file = library_of_launcher(launcher, interface);
    if (!file.empty()) files.push_back(file.string());
  }
  for (const char* name : names_of(interface).libraries) {
    if (!name) continue;
    if (const fs::path near = find_beside_program(name, {}); !near.empty())
      files.push_back(near.string());
    files.emplace_back(name);
  }
  std::string problem;
  for (const std::string& file : files) {
    // RTLD_GLOBAL because MPI libraries load components that look up MPI symbols.
    if (dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL)) return {};
    if (problem.empty()) problem = dlerror();
  }
  return problem;
}

}  // namespace trireme
