// Opens the transport: alone without MPI, otherwise through the plugin.
#include "comm/transport.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "comm/group.h"
#include "comm/mpi/plugin.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "unknown host";
  return name;
}

class SelfTransport final : public Transport {
 public:
  SelfTransport() : world_(make_self_communicator(0, "world")) { place_.host = host_name(); }

  const Place& place() const override { return place_; }
  Communicator& world() override { return *world_; }
  std::unique_ptr<Communicator> group(std::vector<int> world_ranks, std::string name) override {
    TRIREME_CHECK(world_ranks == std::vector<int>{0});
    return make_self_communicator(0, std::move(name));
  }
  void set_listener(OperationListener*) override {}  // nothing is ever sent
  void abort(int exit_code, const std::string& message) override {
    std::fprintf(stderr, "trireme: %s\n", message.c_str());
    std::fflush(nullptr);
    std::_Exit(exit_code);
  }

 private:
  Place place_;
  std::unique_ptr<Communicator> world_;
};

// Beside the program, in the lib folder of an installation, and where it was built.
std::vector<fs::path> plugin_folders() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  return {program, program / "../lib/trireme", TRIREME_PLUGIN_DIR};
}

void* load_plugin(const LaunchInfo& launch) {
  for (const fs::path& folder : plugin_folders()) {
    const fs::path path = folder / mpi_plugin_file;
    std::error_code error;
    if (!fs::exists(path, error)) continue;
    // Global, because MPI libraries load parts of their own that look for MPI's symbols.
    if (void* plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return plugin;
    fail(
        "{} started {} processes, and they need MPI, which cannot be loaded: {}. Install the MPI "
        "library that trireme was built with (Debian: libopenmpi3), or load its module",
        launch.launcher, launch.size, dlerror());
  }
  fail(
      "{} started {} processes, but this build of trireme has no MPI part ({} is not beside the "
      "program). Install libopenmpi-dev (or load an MPI module) and build again",
      launch.launcher, launch.size, mpi_plugin_file);
}

std::unique_ptr<Wire> open_mpi_wire(const LaunchInfo& launch) {
  void* const plugin = load_plugin(launch);
  const auto version = reinterpret_cast<MpiPluginVersion>(dlsym(plugin, mpi_plugin_version_symbol));
  const auto open = reinterpret_cast<MpiPluginOpen>(dlsym(plugin, mpi_plugin_open_symbol));
  if (!version || !open || version() != wire_interface_version) {
    fail("{} belongs to another version of trireme: build or install both together",
         mpi_plugin_file);
  }
  std::unique_ptr<Wire> wire(open());
  if (wire->place().size != launch.size) {
    fail(
        "{} started {} processes, but the MPI library sees {}: it does not belong to this "
        "launcher. "
        "Start with the mpirun of that MPI library, or build with the one that the launcher serves",
        launch.launcher, launch.size, wire->place().size);
  }
  return wire;
}

}  // namespace

std::unique_ptr<Transport> open_transport(const TransportOptions& options) {
  const LaunchInfo launch = discover_launch();
  if (launch.size == 1) return std::make_unique<SelfTransport>();
  return make_wire_transport(open_mpi_wire(launch), {.timeout_s = options.timeout_s});
}

void run_guarded(Transport& transport, const std::function<void()>& body) {
  if (transport.place().size == 1) return body();
  try {
    body();
  } catch (const Error& error) {
    transport.abort(static_cast<int>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    transport.abort(static_cast<int>(ExitCode::failed), "out of memory");
  } catch (const std::exception& error) {
    transport.abort(static_cast<int>(ExitCode::failed), error.what());
  }
}

}  // namespace trireme
