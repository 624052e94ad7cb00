// Starts std::thread and converts its errors.
#include "base/thread.h"

#include <system_error>
#include <utility>

#include "base/error.h"

namespace trireme {

std::thread start_thread(std::string_view advice, std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    fail(
        "cannot start another thread: {}; {}, or increase the limit on processes (ulimit -u, or "
        "the pids limit of the container)",
        error.code().message(), advice);
  }
}

}  // namespace trireme
