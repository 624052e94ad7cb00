// Loads the HTTP plug-in with dlopen.
#include "view/server.h"

#include <dlfcn.h>

#include "base/beside_program.h"
#include "base/error.h"

namespace trireme {
namespace {

const HttpPlugin* load_plugin() {
  const std::filesystem::path path = find_beside_program(http_plugin_file, TRIREME_PLUGIN_DIR);
  if (path.empty())
    fail("{} is not next to the program: build or install it again", http_plugin_file);
  void* const plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!plugin)
    fail(
        "trireme view requires the library cpp-httplib, which cannot be loaded: {}. Install it "
        "(Debian: libcpp-httplib0.11)",
        dlerror());
  const auto entry = reinterpret_cast<HttpPluginEntry>(dlsym(plugin, http_plugin_symbol));
  if (!entry || entry()->version != http_plugin_version)
    fail("{} belongs to a different version of trireme: build or install both together",
         path.string());
  return entry();
}

}  // namespace

std::unique_ptr<HttpServer> listen_on_loopback(int port, HttpHandler handler) {
  static const HttpPlugin* const plugin = load_plugin();
  std::unique_ptr<HttpServer> server(plugin->listen(port, std::move(handler)));
  if (!server)
    fail_input(
        "--port {}: the port is in use, or this user may not listen on it: choose another port, or "
        "--port 0 for any free one",
        port);
  return server;
}

}  // namespace trireme
