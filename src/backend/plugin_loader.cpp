// dlopen of the plug-in, and what is said where it does not fit.
#include "backend/plugin_loader.h"

#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "backend/plugin.h"
#include "base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

fs::path find_plugin(const std::string& file) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& folder :
       {program, program / "../lib/trireme", fs::path(TRIREME_PLUGIN_DIR)}) {
    fs::path path = folder / file;
    if (fs::exists(path, error)) return path;
  }
  return {};
}

std::string file_of(const std::string& name) {
  return "libtrireme_" + name + ".so";
}

// Functions of a loaded plug-in.
struct Plugin {
  PluginOpen open;
  PluginReport report;
};

Plugin load(const fs::path& path) {
  // Local: vendors' libraries export the same names.
  void* const plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!plugin) fail("{} cannot be loaded: {}", path.string(), dlerror());
  const auto version = reinterpret_cast<PluginVersion>(dlsym(plugin, plugin_version_symbol));
  const Plugin functions{reinterpret_cast<PluginOpen>(dlsym(plugin, plugin_open_symbol)),
                         reinterpret_cast<PluginReport>(dlsym(plugin, plugin_report_symbol))};
  if (!version || version() != plugin_version || !functions.open || !functions.report)
    fail("{} belongs to another version of trireme: build or install both together", path.string());
  return functions;
}

Device& open(const std::string& name, const Target& target) {
  const fs::path path = find_plugin(file_of(name));
  if (path.empty()) {
    fail_input(
        "run.device = \"{}\": this build of trireme has no GPU part for it ({} is not next to the "
        "program); docs/gpu.md says how to build it",
        name_of(target.device), file_of(name));
  }
  return *load(path).open(target);
}

}  // namespace

Device& plugin_device(const std::string& name, const Target& target) {
  static std::mutex mutex;
  static auto* const devices = new std::map<std::string, Device*>;
  const std::lock_guard lock(mutex);
  Device*& device = (*devices)[name];
  if (!device) device = &open(name, target);
  return *device;
}

bool has_plugin(const std::string& name) {
  return !find_plugin(file_of(name)).empty();
}

MachineReport plugin_report(const std::string& name) {
  return load(find_plugin(file_of(name))).report();
}

}  // namespace trireme
