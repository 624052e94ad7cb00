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

Device& open(const std::string& name, const Target& target) {
  const std::string file = "libtrireme_" + name + ".so";
  const fs::path path = find_plugin(file);
  if (path.empty()) {
    fail_input(
        "run.device = \"{}\": this build of trireme has no GPU part for it ({} is not next to the "
        "program); docs/gpu.md says how to build it",
        name_of(target.device), file);
  }
  // Local: vendors' libraries export the same names.
  void* const plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!plugin) fail("{} cannot be loaded: {}", path.string(), dlerror());
  const auto version = reinterpret_cast<PluginVersion>(dlsym(plugin, plugin_version_symbol));
  const auto make = reinterpret_cast<PluginOpen>(dlsym(plugin, plugin_open_symbol));
  if (!version || !make || version() != plugin_version)
    fail("{} belongs to another version of trireme: build or install both together", path.string());
  return *make(target);
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

}  // namespace trireme
