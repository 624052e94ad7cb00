// The file is small: it is rewritten in full each time.
#include "train/run/run_status.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

std::string own_host() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return host;
}

std::int64_t number_of(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

std::string word_of(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::string to_json(const RunStatus& status) {
  nlohmann::ordered_json json = {
      {"state", status.state},
      {"step", status.step},
      {"steps", status.steps},
      {"saved_step", status.saved},
      {"reason", status.reason},
      {"ranks", status.ranks},
      {"updated", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
      {"host", own_host()},
      {"pid", ::getpid()}};
  if (status.saved_locally > 0) json["locally_saved_step"] = status.saved_locally;
  if (status.copied > 0) json["locally_copied_step"] = status.copied;
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
  const auto number = [&](const char* key) { return number_of(json, key); };
  const auto word = [&](const char* key) { return word_of(json, key); };
  return RunStatus{word("state"),
                   number("step"),
                   number("steps"),
                   number("saved_step"),
                   word("reason"),
                   number("ranks"),
                   number("locally_saved_step"),
                   number("locally_copied_step")};
}

std::optional<StatusWriter> parse_status_writer(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  return StatusWriter{word_of(json, "host"), word_of(json, "updated"), number_of(json, "pid")};
}

bool StatusWriter::is_this_process() const {
  return host == own_host() && pid == ::getpid();
}

double StatusWriter::age_s() const {
  std::tm when{};
  if (!::strptime(updated.c_str(), "%Y-%m-%dT%H:%M:%SZ", &when)) return HUGE_VAL;
  return std::difftime(std::time(nullptr), ::timegm(&when));
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
