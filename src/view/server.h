// A web server for this machine only, with the HTTP plug-in.
#pragma once

#include <memory>

#include "view/http/plugin.h"

namespace trireme {

// Listens on that port of 127.0.0.1; 0: on any that is free. Refused (exit code 2) with what to do:
// a port that is taken. fail()s where the plug-in cannot be loaded.
std::unique_ptr<HttpServer> listen_on_loopback(int port, HttpHandler handler);

}  // namespace trireme
