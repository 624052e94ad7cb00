// The only file that includes the HTTP library.
#include "view/http/plugin.h"

#include <httplib.h>

#include <memory>
#include <string>

namespace trireme {
namespace {

constexpr const char* loopback = "127.0.0.1";
constexpr std::size_t threads = 8;

class LoopbackServer : public HttpServer {
 public:
  explicit LoopbackServer(HttpHandler handler) : handler_(std::move(handler)) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(threads); };
    // The library would let two programs listen on one port.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    // An open connection holds a thread, and new ones cost nothing here.
    server_.set_keep_alive_max_count(1);
    server_.set_payload_max_length(4096);
    server_.set_tcp_nodelay(true);
    // Before the library looks at methods, paths and bodies.
    server_.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          answer(request, response);
          return httplib::Server::HandlerResponse::Handled;
        });
  }

  bool listen(int port) {
    port_ = port == 0 ? server_.bind_to_any_port(loopback)
                      : (server_.bind_to_port(loopback, port) ? port : -1);
    return port_ > 0;
  }
  int port() const override { return port_; }
  void serve() override { server_.listen_after_bind(); }
  void stop() override { server_.stop(); }

 private:
  void answer(const httplib::Request& request, httplib::Response& response) {
    const auto reply = std::make_shared<HttpReply>(
        handler_({request.method, request.path, request.get_header_value("Host"),
                  request.has_param("have") ? request.get_param_value("have") : ""}));
    response.status = reply->status;
    // Nothing is fetched from elsewhere, and no other site may show this one or read from it.
    response.set_header("Content-Security-Policy",
                        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
                        "'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
                        "form-action 'none'");
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Referrer-Policy", "no-referrer");
    response.set_header("Cross-Origin-Resource-Policy", "same-origin");
    response.set_header("Cache-Control", "no-store");
    // Sent in chunks so that the library does not compress them: slow, and useless on a local link.
    if (reply->body.empty()) return;
    response.set_content_provider(
        reply->body.size(), reply->type,
        [reply](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
          return sink.write(reply->body.data() + offset, length);
        });
  }

  HttpHandler handler_;
  httplib::Server server_;
  int port_ = -1;
};

HttpServer* listen(int port, HttpHandler handler) {
  auto server = std::make_unique<LoopbackServer>(std::move(handler));
  return server->listen(port) ? server.release() : nullptr;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const HttpPlugin* trireme_http() {
  static constexpr HttpPlugin plugin = {http_plugin_version, listen};
  return &plugin;
}

}  // namespace trireme
