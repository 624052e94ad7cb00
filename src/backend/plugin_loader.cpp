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
  fail(
      "run.device = \"{}\" needs {}, which this build of trireme does not have. docs/gpu.md says "
      "how to build it",
      file.substr(11, file.size() - 14), file);
}

Device& open(const std::string& name) {
  const std::string file = "libtrireme_" + name + ".so";
  const fs::path path = find_plugin(file);
  // Local: vendors' libraries export the same names.
  void* const plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!plugin) fail("{} cannot be loaded: {}", path.string(), dlerror());
  const auto version = reinterpret_cast<PluginVersion>(dlsym(plugin, plugin_version_symbol));
  const auto make = reinterpret_cast<PluginOpen>(dlsym(plugin, plugin_open_symbol));
  if (!version || !make || version() != plugin_version)
    fail("{} belongs to another version of trireme: build or install both together", path.string());
  return *make(Target{});
}

}  // namespace

Device& plugin_device(const std::string& name) {
  static std::mutex mutex;
  static auto* const devices = new std::map<std::string, Device*>;
  const std::lock_guard lock(mutex);
  Device*& device = (*devices)[name];
  if (!device) device = &open(name);
  return *device;
}

}  // namespace trireme
