// The file is small: it is written anew each time.
#include "train/run_status.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>

namespace trireme {

std::string to_json(const RunStatus& status) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const nlohmann::ordered_json json = {
      {"state", status.state},
      {"step", status.step},
      {"steps", status.steps},
      {"saved_step", status.saved},
      {"reason", status.reason},
      {"updated", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
      {"host", host},
      {"pid", ::getpid()}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void write_status(const fs::path& path, const RunStatus& status, bool durable) {
  const std::string text = to_json(status);
  NewFile file(path);
  file.file().write(text.data(), text.size());
  durable ? file.keep() : file.keep_unsynced();
}

}  // namespace trireme
