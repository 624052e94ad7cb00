// Loads the plug-in with dlopen and explains failures.
#include "backend/plugin_loader.h"

#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "backend/plugin.h"
#include "base/beside_program.h"
#include "base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string file_of(const std::string& name) {
  return "libtrireme_" + name + ".so";
}

fs::path find_plugin(const std::string& name) {
  return find_beside_program(file_of(name), TRIREME_PLUGIN_DIR);
}

// Entry points of a loaded plug-in.
struct Plugin {
  PluginOpen open;
  PluginStart start;
  PluginReport report;
};

Plugin load(const fs::path& path) {
  // RTLD_LOCAL because the vendors' libraries export the same names.
  void* const plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!plugin) fail("{} cannot be loaded: {}", path.string(), dlerror());
  const auto version = reinterpret_cast<PluginVersion>(dlsym(plugin, plugin_version_symbol));
  const Plugin functions{reinterpret_cast<PluginOpen>(dlsym(plugin, plugin_open_symbol)),
                         reinterpret_cast<PluginStart>(dlsym(plugin, plugin_start_symbol)),
                         reinterpret_cast<PluginReport>(dlsym(plugin, plugin_report_symbol))};
  if (!version || version() != plugin_version || !functions.open || !functions.start ||
      !functions.report)
    fail("{} belongs to a different version of trireme: build or install both together",
         path.string());
  return functions;
}

Plugin load_for(const std::string& name, const Target& target) {
  const fs::path path = find_plugin(name);
  if (path.empty()) {
    fail_input(
        "run.device = \"{}\": this build of trireme has no plug-in for it ({} is not next to the "
        "program); see docs/gpu.md for how to build it",
        name_of(target.device), file_of(name));
  }
  return load(path);
}

// State of one plug-in.
struct Opened {
  Device* device = nullptr;
  int index = 0;
};
std::mutex mutex;

Opened& opened(const std::string& name) {
  static auto* const all = new std::map<std::string, Opened>;
  return (*all)[name];
}

}  // namespace

Device& plugin_device(const std::string& name, const Target& target) {
  const std::lock_guard lock(mutex);
  Opened& one = opened(name);
  if (!one.device) one.device = load_for(name, target).open(target, one.index);
  return *one.device;
}

std::vector<int> start_plugin(const std::string& name, const Target& target) {
  return load_for(name, target).start();
}

void choose_plugin_device(const std::string& name, int index) {
  const std::lock_guard lock(mutex);
  opened(name).index = index;
}

bool has_plugin(const std::string& name) {
  return !find_plugin(name).empty();
}

MachineReport plugin_report(const std::string& name) {
  return load(find_plugin(name)).report();
}

}  // namespace trireme
