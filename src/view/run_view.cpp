// Reads the files of a run's folder, each of which may be missing, damaged or incomplete.
#include "view/run_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "checkpoint/layout.h"
#include "config/fields.h"
#include "model/transformer.h"
#include "plan/layout_plan.h"
#include "view/own_file.h"
#include "view/series_json.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_bytes_at_once = 64 << 20;
constexpr std::size_t most_entries = 10'000, most_checkpoints = 200, most_files = 60;
constexpr std::size_t most_samples = 8, longest_sample = 4000;
constexpr auto folder_every = std::chrono::seconds(5);

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::int64_t seconds_of(fs::file_time_type time) {
  const auto since = std::chrono::file_clock::to_sys(time).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

// Whether the process that wrote the status has certainly ended. Testing the lock would hold it
// briefly, during which no run could start.
bool is_gone(const Json& status) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const auto pid = status.find("pid");
  if (pid == status.end() || !pid->is_number_integer() || status.value("host", "") != host)
    return false;
  const auto number = pid->get<std::int64_t>();
  return number > 0 && number < (1 << 30) && ::kill(static_cast<pid_t>(number), 0) != 0 &&
         errno == ESRCH;
}

// Keeps only members of the expected types.
RunStatusText understood(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  RunStatusText status;
  if (!json.is_object()) {
    status.note = "status.json is not a JSON object: how far the run is, is not known";
    return status;
  }
  Json known;
  for (const char* name : {"step", "steps", "saved_step", "ranks"})
    if (const auto found = json.find(name); found != json.end() && found->is_number_integer())
      known[name] = found->get<std::int64_t>();
  for (const char* name : {"state", "reason", "updated", "host"})
    if (const auto found = json.find(name); found != json.end() && found->is_string())
      known[name] = found->get<std::string>().substr(0, 1000);
  status.running = known.value("state", "") == "running";
  const std::int64_t ranks = known.value("ranks", std::int64_t{0});
  status.ranks = ranks > 0 && ranks <= (1 << 24) ? static_cast<int>(ranks) : 0;
  known["updated"] = known.value("updated", "");
  if (status.running && is_gone(json)) known["gone"] = true;
  status.json = text_of(known);
  return status;
}

// Non-default keys, as TOML.
std::string config_json(Config config) {
  Config defaults;
  Json json = Json::object();
  for (const Field& field : all_fields()) {
    std::string value = toml_value(field.slot(config));
    if (value != toml_value(field.slot(defaults))) json[field.key()] = value.substr(0, 300);
  }
  return text_of(json);
}

// Total size of the files in a checkpoint folder.
std::uint64_t bytes_in(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::size_t entries = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end && entries < most_entries;
       at.increment(error), ++entries) {
    const std::uint64_t size = at->file_size(error);
    if (!error) bytes += size;
    error.clear();
  }
  return bytes;
}

Json to_json(const std::vector<SavedCheckpoint>& checkpoints) {
  Json json = Json::array();
  for (const SavedCheckpoint& saved : checkpoints)
    json.push_back({{"step", saved.step}, {"bytes", saved.bytes}, {"time", saved.time}});
  return json;
}

template <class Value>
Json pairs_json(const std::vector<std::pair<std::string, Value>>& pairs) {
  Json json = Json::array();
  for (const auto& [name, value] : pairs) json.push_back({name, value});
  return json;
}

double flops_per_token(const Config& config) {
  return config.model.vocab_size > 0 ? training_flops_per_token(config.model) : 0;
}

// Peak of a device at the precision of the run; 0: not known.
double peak_of(const MachineSpeed* speed, const Config& config) {
  if (!speed || config.run.precision == Precision::fp64) return 0;
  return (config.run.precision == Precision::fp32 ? speed->fp32 : speed->bf16).peak;
}

}  // namespace

bool WatchedFile::has_changed() {
  std::error_code error;
  const bool there = is_own_file(path_);
  const fs::file_time_type time = there ? fs::last_write_time(path_, error) : fs::file_time_type{};
  const std::uintmax_t size = there ? fs::file_size(path_, error) : 0;
  const bool changed = !seen_ || there != there_ || time != time_ || size != size_;
  seen_ = true;
  there_ = there;
  time_ = time;
  size_ = size;
  return changed;
}

std::optional<std::string> WatchedFile::text() const {
  if (!there_) return std::nullopt;
  return read_own_file(path_, 1 << 20);
}

RunView::RunView(const fs::path& folder, const MachineSpeed* speed)
    : folder_(folder),
      speed_(speed),
      metrics_(folder / "metrics.jsonl"),
      timings_(folder / "timings.jsonl"),
      events_(folder / "log.txt"),
      status_file_(folder / "status.json"),
      config_file_(folder / "config.toml"),
      // A page must not mix data of this process with data of another one.
      generation_(
          static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) >>
          10) {}

int RunView::ranks() const {
  if (status_.ranks > 0 || !config_) return std::max(status_.ranks, 1);
  const ParallelConfig& p = config_->parallel;
  return static_cast<int>(p.tp * p.cp * p.pp * p.dp_replicate);
}

void RunView::refresh() {
  ++version_;
  const bool metrics_replaced = metrics_.refresh(version_, most_bytes_at_once);
  const bool timings_replaced = timings_.refresh(version_, most_bytes_at_once);
  const bool events_replaced = events_.refresh(version_, most_bytes_at_once);
  if (metrics_replaced || timings_replaced || events_replaced) ++generation_;
  read_status();
  read_config();
  const auto now = std::chrono::steady_clock::now();
  if (listed_.time_since_epoch().count() == 0 || now - listed_ >= folder_every) {
    listed_ = now;
    list_folder();
  }
}

void RunView::read_status() {
  // A process that has ended changes no files.
  if (!status_file_.has_changed() && !status_.running) return;
  const int before = ranks();
  try {
    const std::optional<std::string> text = status_file_.text();
    status_ = text ? understood(*text) : RunStatusText{"{}", "there is no status.json (yet)"};
  } catch (const std::exception& error) {
    status_ = {"{}", error.what()};
  }
  if (ranks() != before) ++layout_version_;
}

void RunView::read_config() {
  if (!config_file_.has_changed()) return;
  config_version_ = version_;
  ++layout_version_;
  config_.reset();
  config_text_ = "{}";
  config_note_ = "there is no config.toml (yet)";
  try {
    const std::optional<std::string> text = config_file_.text();
    if (!text) return;
    Config config = parse_config(*text, config_file_.path().string());
    config_text_ = config_json(config);
    assume_vocabulary(config);
    config_ = std::move(config);
    config_note_.clear();
  } catch (const std::exception& error) {
    config_note_ = fmt::format("config.toml cannot be used: {}", error.what());
  }
}

void RunView::list_folder() {
  folder_note_.clear();
  const auto checkpoints_before = std::move(checkpoints_);
  const auto files_before = std::move(files_);
  const auto samples_before = std::move(samples_);
  checkpoints_.clear();
  files_.clear();
  samples_.clear();
  try {
    std::error_code error;
    for (fs::directory_iterator at(folder_, error), end;
         !error && at != end && files_.size() < most_files; at.increment(error)) {
      std::error_code none;
      const bool is_folder = at->is_directory(none);
      files_.emplace_back(at->path().filename().string() + (is_folder ? "/" : ""),
                          is_folder ? 0 : at->file_size(none));
    }
    if (error) folder_note_ = fmt::format("{}: {}", folder_.string(), error.message());
    std::ranges::sort(files_);
    list_checkpoints();
    list_samples();
  } catch (const std::exception& error) {  // files removed while being listed
    folder_note_ = error.what();
  }
  const auto tie = [](const SavedCheckpoint& a, const SavedCheckpoint& b) {
    return a.step == b.step && a.bytes == b.bytes && a.time == b.time;
  };
  if (files_ != files_before || samples_ != samples_before ||
      !std::ranges::equal(checkpoints_, checkpoints_before, tie))
    folder_version_ = version_;
}

void RunView::list_checkpoints() {
  const fs::path folder = folder_ / "checkpoints";
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  std::vector<std::int64_t> steps = saved_steps(folder);
  if (steps.size() > most_checkpoints) {
    folder_note_ = fmt::format("of {} the newest {} are shown", counted(steps.size(), "checkpoint"),
                               most_checkpoints);
    steps.erase(steps.begin(), steps.end() - most_checkpoints);
  }
  for (const std::int64_t step : steps) {
    const fs::path saved = folder / step_folder(step);
    const fs::file_time_type time = fs::last_write_time(saved / manifest_file, error);
    checkpoints_.push_back({step, bytes_in(saved), error ? 0 : seconds_of(time)});
  }
}

// Lists texts that were put into the run's folder: what the model wrote at some step.
void RunView::list_samples() {
  const OwnFolder folder(folder_ / "samples");
  if (!folder.is_open()) return;
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder.path(), error), end;
       !error && at != end && files.size() < most_entries; at.increment(error)) {
    if (at->path().extension() == ".txt" && fs::is_regular_file(at->symlink_status(error)))
      files.push_back(at->path());
  }
  std::ranges::sort(files, std::greater());
  if (files.size() > most_samples) files.resize(most_samples);
  for (const fs::path& path : files) {
    const File file = open_own_file(path);
    std::string text(std::min<std::uint64_t>(file.size(), longest_sample), '\0');
    file.read_at(0, text.data(), text.size());
    samples_.emplace_back(path.filename().string(), std::move(text));
  }
}

std::vector<std::string> RunView::notes() const {
  std::vector<std::string> notes = metrics_.notes();
  const std::vector<std::string> of_timings = timings_.notes();
  notes.insert(notes.end(), of_timings.begin(), of_timings.end());
  for (const std::string& note : {status_.note, config_note_, folder_note_, events_.fault()})
    if (!note.empty()) notes.push_back(note);
  return notes;
}

std::string RunView::update(std::uint64_t generation, std::uint64_t version) const {
  if (generation != generation_) version = 0;
  std::string text = fmt::format(
      "\"generation\":{},\"version\":{},\"all\":{},\"status\":{},\"notes\":{},\"starts\":{}",
      generation_, version_, version == 0, status_.json, text_of(notes()), events_.starts());
  Json events = Json::array();
  for (const RunEvent& event : events_.events())
    if (event.version > version)
      events.push_back({event.name(), event.time, event.step, event.text});
  if (!events.empty()) text += ",\"events\":" + text_of(events);
  if (config_version_ > version) {
    text += fmt::format(",\"config\":{}", config_text_);
    if (config_)
      text += fmt::format(",\"flops_per_token\":{},\"peak_flops\":{}", flops_per_token(*config_),
                          peak_of(speed_, *config_));
  }
  if (folder_version_ > version) {
    text += fmt::format(",\"checkpoints\":{},\"files\":{},\"samples\":{}",
                        text_of(to_json(checkpoints_)), text_of(pairs_json(files_)),
                        text_of(pairs_json(samples_)));
  }
  Json incidents = Json::array();
  for (const Incident& incident : metrics_.incidents())
    if (incident.version > version) incidents.push_back({incident.step, incident.what});
  if (!incidents.empty()) text += ",\"incidents\":" + text_of(incidents);
  text += fmt::format(
      ",\"ranks\":{},\"layout\":{},\"whole\":{},\"series\":{{{}}}", ranks(), layout_version_,
      is_whole(),
      fmt::join(series_members({&metrics_.series(), &timings_.series()}, version), ","));
  return text;
}

}  // namespace trireme
