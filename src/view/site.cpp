// Request paths, and JSON built from the runs.
#include "view/site.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "view/page.h"
#include "view/run_folders.h"

namespace trireme {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto look_every = std::chrono::seconds(10);
// Limit on the refresh rate, for any number of browsers.
constexpr auto refresh_every = std::chrono::milliseconds(900);
constexpr const char* plain = "text/plain; charset=utf-8";
constexpr const char* json_type = "application/json";

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// "localhost", "127.0.0.1" and "[::1]", with any port, since tunnels may use other ports.
bool is_this_machine(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  const bool with_port = colon != std::string_view::npos && host.find(']', colon) == host.npos &&
                         (host.front() == '[' || host.find(':') == colon);
  const std::string_view name = with_port ? host.substr(0, colon) : host;
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

// Version of a run that a page already has.
struct Known {
  std::uint64_t generation = 0, version = 0;
};

// Parses "0:17:3,1:17:9": run, generation and version. Invalid texts are treated as unknown.
std::map<std::uint64_t, Known> known_of(const std::string& have) {
  std::map<std::uint64_t, Known> known;
  const char* at = have.data();
  const char* const end = at + have.size();
  while (at < end && known.size() < most_runs) {
    std::uint64_t numbers[3];
    for (std::uint64_t& number : numbers) {
      const auto [next, error] = std::from_chars(at, end, number);
      if (error != std::errc()) return known;
      at = next < end ? next + 1 : end;
    }
    known[numbers[0]] = {numbers[1], numbers[2]};
  }
  return known;
}

HttpReply refusal(int status, const std::string& why) {
  return {status, plain, why + "\n"};
}

}  // namespace

WebSite::WebSite(std::vector<fs::path> named, std::optional<Machine> machine)
    : named_(std::move(named)), machine_(std::move(machine)) {
  look_for_runs();
}

void WebSite::look_for_runs() {
  looked_ = SteadyClock::now();
  FoundRuns found;
  try {
    found = find_runs(named_);
  } catch (const std::exception&) {
    if (runs_.empty()) throw;
    return;  // a folder that was there when the program began: its run says what is missing
  }
  left_out_ = found.left_out;
  gave_up_ = found.gave_up;
  std::vector<fs::path> folders;
  for (const Run& run : runs_) folders.push_back(run.view.folder());
  const MachineSpeed* const speed = machine_ && machine_->speed ? &*machine_->speed : nullptr;
  for (const fs::path& folder : found.folders) {
    if (std::ranges::find(folders, folder) != folders.end() || runs_.size() == most_runs) continue;
    runs_.push_back({runs_.size(), RunView(folder, speed)});
    folders.push_back(folder);
  }
  names_ = short_names(folders);
}

void WebSite::refresh() {
  if (SteadyClock::now() - looked_ >= look_every) look_for_runs();
  if (SteadyClock::now() - refreshed_ < refresh_every) return;
  for (Run& run : runs_) run.view.refresh();
  refreshed_ = SteadyClock::now();
}

std::string WebSite::update(const std::string& have) {
  refresh();
  const std::map<std::uint64_t, Known> known = known_of(have);
  std::vector<std::string> runs;
  for (const Run& run : runs_) {
    const auto found = known.find(run.id);
    const Known of_run = found == known.end() ? Known() : found->second;
    runs.push_back(fmt::format("{{\"id\":{},\"name\":{},\"folder\":{},{}}}", run.id,
                               json_text(names_[run.id]), json_text(run.view.folder().string()),
                               run.view.update(of_run.generation, of_run.version)));
  }
  std::string note;
  if (left_out_ > 0)
    note = fmt::format("{} not shown: at most {} are shown", counted(left_out_, "run"), most_runs);
  if (gave_up_)
    note += fmt::format(
        "{}the folders contain too many files to search all of them for runs: give the runs, or "
        "folders closer to them",
        note.empty() ? "" : "; ");
  return fmt::format("{{\"time\":{},\"machine\":{},\"note\":{},\"runs\":[{}]}}",
                     std::chrono::duration_cast<std::chrono::seconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count(),
                     json_text(machine_ ? machine_->name : ""), json_text(note),
                     fmt::join(runs, ","));
}

std::string WebSite::layout(Run& run) {
  if (run.drawn_version == run.view.layout_version()) return run.drawn;
  LayoutPictures pictures;
  if (run.view.config()) {
    const bool knows = machine_ && machine_->speed;
    pictures = draw_layout(*run.view.config(), run.view.ranks(),
                           knows ? static_cast<std::int64_t>(machine_->speed->memory_bytes) : 0);
  } else {
    pictures.note = "the layout cannot be drawn without config.toml";
  }
  run.drawn = nlohmann::json{{"mesh", pictures.mesh},
                             {"memory", pictures.memory},
                             {"schedule", pictures.schedule},
                             {"note", pictures.note}}
                  .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  run.drawn_version = run.view.layout_version();
  return run.drawn;
}

WebSite::Run* WebSite::find_run(const std::string& id) {
  std::size_t number = runs_.size();
  const char* const end = id.data() + id.size();
  const auto [rest, error] = std::from_chars(id.data(), end, number);
  return error == std::errc() && rest == end && number < runs_.size() ? &runs_[number] : nullptr;
}

HttpReply WebSite::find(const HttpRequest& request) {
  if (!is_this_machine(request.host.empty() ? "-" : request.host))
    return refusal(403, "this page is available only at localhost and 127.0.0.1");
  if (request.method != "GET") return refusal(405, "only GET is supported");
  if (request.path == "/") return {200, "text/html; charset=utf-8", page_html()};
  if (request.path == "/view.css") return {200, "text/css; charset=utf-8", page_css()};
  if (request.path == "/view.js") return {200, "text/javascript; charset=utf-8", page_script()};
  const std::lock_guard lock(mutex_);
  if (request.path == "/update") return {200, json_type, update(request.have)};
  constexpr std::string_view layouts = "/layout/";
  if (request.path.starts_with(layouts)) {
    if (Run* const run = find_run(request.path.substr(layouts.size())))
      return {200, json_type, layout(*run)};
  }
  return refusal(404, "there is no such page");
}

HttpReply WebSite::answer(const HttpRequest& request) {
  try {
    return find(request);
  } catch (const std::exception& error) {
    return refusal(500, error.what());
  }
}

std::string WebSite::report() {
  const std::lock_guard lock(mutex_);
  // Long files are read in several iterations.
  do {
    refreshed_ = {};
    refresh();
  } while (std::ranges::any_of(runs_, [](const Run& run) { return !run.view.is_whole(); }));
  std::vector<std::string> layouts;
  for (Run& run : runs_) layouts.push_back(fmt::format("\"{}\":{}", run.id, layout(run)));
  return page_alone(
      fmt::format("{{\"update\":{},\"layouts\":{{{}}}}}", update(""), fmt::join(layouts, ",")));
}

}  // namespace trireme
