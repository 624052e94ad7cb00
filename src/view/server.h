// A local web server, through the HTTP plug-in.
#pragma once

#include <memory>

#include "view/http/plugin.h"

namespace trireme {

// Listens on a port of 127.0.0.1; 0: any free port. Rejects (exit code 2), with advice, a port in
// use. Calls fail() if the plug-in cannot be loaded.
std::unique_ptr<HttpServer> listen_on_loopback(int port, HttpHandler handler);

}  // namespace trireme
