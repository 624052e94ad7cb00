// dlopen of libtrireme_mpi.so, and what is said where it does not fit.
#include "comm/plugin_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/beside_program.h"
#include "base/error.h"
#include "comm/launch_advice.h"
#include "comm/mpi/plugin.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

fs::path find_plugin() {
  return find_beside_program(mpi_plugin_file, TRIREME_PLUGIN_DIR);
}

void* load_plugin(const LaunchInfo& launch) {
  const fs::path path = find_plugin();
  if (path.empty()) {
    fail(
        "{} started {} processes, but this build of trireme has no MPI part ({} is not next to the "
        "program). Install libopenmpi-dev (or load an MPI module) and build again",
        launch.launcher, launch.size, mpi_plugin_file);
  }
  // Global, because MPI libraries load parts of their own that look for MPI's symbols.
  if (void* plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return plugin;
  fail(
      "{} started {} processes, and they need MPI, which cannot be loaded: {}. Install the MPI "
      "library that trireme was built with (Debian: libopenmpi3 or libmpich12), or load its module",
      launch.launcher, launch.size, dlerror());
}

const char* variable(const char* name) {
  return std::getenv(name);
}

}  // namespace

std::unique_ptr<Wire> open_mpi_wire(const LaunchInfo& launch) {
  void* const plugin = load_plugin(launch);
  const auto version = reinterpret_cast<MpiPluginVersion>(dlsym(plugin, mpi_plugin_version_symbol));
  const auto library = reinterpret_cast<MpiPluginLibrary>(dlsym(plugin, mpi_plugin_library_symbol));
  const auto open = reinterpret_cast<MpiPluginOpen>(dlsym(plugin, mpi_plugin_open_symbol));
  if (!version || !library || !open || version() != wire_interface_version) {
    fail("{} belongs to another version of trireme: build or install both together",
         mpi_plugin_file);
  }
  const bool prints = launch.rank == 0;
  const std::string warning = srun_warning(library(), variable);
  if (prints && !warning.empty()) std::fprintf(stderr, "trireme: %s\n", warning.c_str());
  std::unique_ptr<Wire> wire(open());
  const int seen = wire->place().size;
  if (seen == launch.size) return wire;
  // All are in the same situation; only the first one by the launcher's count prints.
  if (!prints) {
    std::this_thread::sleep_for(
        std::chrono::seconds(1));  // launchers end the others with the first
    throw Error(ExitCode::failed, "");
  }
  fail("{}", launcher_mismatch(launch, library(), seen, variable));
}

std::string mpi_launcher() {
  if (find_plugin().empty()) {
    fail(
        "several processes need MPI, and this build of trireme has no MPI part ({} is not next to "
        "the program). Install libopenmpi-dev (or load an MPI module) and build again",
        mpi_plugin_file);
  }
  const char* const chosen = variable("TRIREME_MPIRUN");
  if (chosen && *chosen) return chosen;
  return access(TRIREME_MPIEXEC, X_OK) == 0 ? TRIREME_MPIEXEC : "mpirun";
}

MpiInfo find_mpi() {
  MpiInfo info;
  info.plugin = find_plugin().string();
  if (info.plugin.empty()) return info;
  info.launcher = mpi_launcher();
  void* const plugin = dlopen(info.plugin.c_str(), RTLD_NOW | RTLD_GLOBAL);
  const auto library =
      plugin ? reinterpret_cast<MpiPluginLibrary>(dlsym(plugin, mpi_plugin_library_symbol))
             : nullptr;
  if (library) {
    info.library = library();
  } else {
    info.problem = dlerror();
  }
  return info;
}

}  // namespace trireme
