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
  nlohmann::ordered_json json = {
      {"state", status.state},
      {"step", status.step},
      {"steps", status.steps},
      {"saved_step", status.saved},
      {"reason", status.reason},
      {"ranks", status.ranks},
      {"updated", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
      {"host", host},
      {"pid", ::getpid()}};
  if (status.saved_locally > 0) json["locally_saved_step"] = status.saved_locally;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void write_status(const fs::path& path, const RunStatus& status, bool durable) {
  const std::string text = to_json(status);
  NewFile file(path);
  file.file().write(text.data(), text.size());
  durable ? file.keep() : file.keep_unsynced();
}

std::optional<RunStatus> parse_status(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto number = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  };
  const auto word = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "";
  };
  return RunStatus{word("state"),
                   number("step"),
                   number("steps"),
                   number("saved_step"),
                   word("reason"),
                   number("ranks"),
                   number("locally_saved_step")};
}

void mark_failed(const fs::path& run_folder, const std::string& reason) {
  const fs::path path = run_folder / "status.json";
  std::error_code error;
  if (!fs::exists(path, error)) return;
  std::optional<RunStatus> status = parse_status(read_file(path, 1 << 20));
  if (!status || status->state != "running") return;
  status->state = "failed";
  status->reason = reason;
  write_status(path, *status, true);
}

}  // namespace trireme
