// Interface of the plug-in with the HTTP library: a server on the loopback interface. A plug-in,
// since the library brings others with it that no other command needs, and a job of thousands of
// processes would open their files at every start.
#pragma once

#include <functional>
#include <string>

namespace trireme {

// Changes with every change below.
inline constexpr int http_plugin_version = 1;
inline constexpr const char* http_plugin_file = "libtrireme_http.so";
inline constexpr const char* http_plugin_symbol = "trireme_http";

struct HttpRequest {
  std::string method, path;  // the path without what follows its ?
  std::string host;          // the header
  std::string have;          // the parameter of that name
};

struct HttpReply {
  int status = 200;
  std::string type, body;
};

// Called by several threads at the same time; must not throw.
using HttpHandler = std::function<HttpReply(const HttpRequest&)>;

class HttpServer {
 public:
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
  // Answers requests until another thread calls stop().
  virtual void serve() = 0;
  virtual void stop() = 0;
};

struct HttpPlugin {
  int version;
  // Listens on a port of 127.0.0.1, on any free one for 0; null where that cannot be.
  HttpServer* (*listen)(int port, HttpHandler handler);
};
using HttpPluginEntry = const HttpPlugin* (*)();

}  // namespace trireme
