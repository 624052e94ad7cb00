// Converts a run's files line by line.
#include "view/wandb_export.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "config/config.h"
#include "config/fields.h"
#include "train/run/run_status.h"
#include "view/wandb_file.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// A line's object and its step; null for a torn or invalid line.
struct Line {
  Json values;
  std::int64_t step = 0;
};

std::optional<Line> parse_line(const std::string& text) {
  Line line{Json::parse(text, nullptr, false)};
  if (!line.values.is_object()) return std::nullopt;
  const auto step = line.values.find("step");
  if (step == line.values.end() || !step->is_number_integer()) return std::nullopt;
  line.step = step->get<std::int64_t>();
  line.values.erase(step);
  return line;
}

using SecondsOfSteps = std::unordered_map<std::int64_t, double>;

SecondsOfSteps read_seconds(const fs::path& timings) {
  SecondsOfSteps seconds;
  std::ifstream file(timings);
  for (std::string text; std::getline(file, text);) {
    const auto line = parse_line(text);
    if (!line) continue;
    const auto found = line->values.find("seconds");
    if (found != line->values.end() && found->is_number())
      seconds[line->step] = found->get<double>();
  }
  return seconds;
}

// The full configuration: one object per section.
std::vector<WandbItem> config_items(const fs::path& path) {
  if (!fs::exists(path)) return {};
  Config config = parse_config(read_file(path), path.string());
  std::map<std::string, Json> sections;
  for (const Field& field : all_fields()) {
    const std::string text = toml_value(field.slot(config));
    const Json value = Json::parse(text, nullptr, false);  // TOML values are valid JSON, except inf
    sections[field.section][field.name] = value.is_discarded() ? Json(text) : value;
  }
  std::vector<WandbItem> items;
  for (const auto& [section, values] : sections) items.emplace_back(section, values.dump());
  return items;
}

double changed_at(const fs::path& path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return 0;
  return static_cast<double>(about.st_mtime);
}

// Collects the lines of a step, writes them when the next one begins, and keeps the newest values.
class Rows {
 public:
  Rows(WandbFile& file, const SecondsOfSteps& seconds, double start)
      : file_(file), seconds_(seconds), start_(start) {}

  void add(const Line& line) {
    if (line.step != step_) write();
    step_ = line.step;
    for (const auto& [name, value] : line.values.items())
      if (!value.is_null()) row_[name] = value.dump();
  }

  void write() {
    if (row_.empty()) return;
    if (const auto found = seconds_.find(step_); found != seconds_.end()) elapsed_ += found->second;
    row_["_step"] = fmt::format("{}", step_);
    row_["_runtime"] = fmt::format("{}", elapsed_);
    row_["_timestamp"] = fmt::format("{}", start_ + elapsed_);
    const std::vector<WandbItem> items(row_.begin(), row_.end());
    file_.write_row(step_, items);
    for (const auto& [name, json] : items) newest_[name] = json;
    row_.clear();
    ++count_;
  }

  std::int64_t count() const { return count_; }
  double elapsed() const { return elapsed_; }
  std::map<std::string, std::string>& newest() { return newest_; }

 private:
  WandbFile& file_;
  const SecondsOfSteps& seconds_;
  double start_, elapsed_ = 0;
  std::int64_t step_ = -1, count_ = 0;
  std::map<std::string, std::string> row_, newest_;
};

RunStatus status_of(const fs::path& run) {
  const fs::path path = run / "status.json";
  if (!fs::exists(path)) return {};
  return parse_status(read_file(path)).value_or(RunStatus{});
}

void write_run(const fs::path& run, WandbFile& file, const WandbRun& named,
               const SecondsOfSteps& seconds, WandbExport& report) {
  file.write_run(named, config_items(run / "config.toml"));
  Rows rows(file, seconds, named.start);
  std::ifstream metrics(run / "metrics.jsonl");
  std::int64_t number = 0;
  for (std::string text; std::getline(metrics, text);) {
    ++number;
    if (const auto line = parse_line(text)) {
      rows.add(*line);
    } else if (report.damaged++ == 0) {
      report.first_damaged = number;
    }
  }
  rows.write();
  const RunStatus status = status_of(run);
  rows.newest()["state"] = Json(status.state).dump();
  if (!status.reason.empty()) rows.newest()["reason"] = Json(status.reason).dump();
  file.write_summary(std::vector<WandbItem>(rows.newest().begin(), rows.newest().end()));
  file.write_exit(status.state == "failed" ? 1 : 0, rows.elapsed());
  file.finish();
  report.rows = rows.count();
  report.unfinished = status.state == "running";
}

}  // namespace

WandbExport export_to_wandb(const fs::path& run, const WandbOptions& options) {
  const fs::path metrics = run / "metrics.jsonl";
  if (!fs::exists(metrics))
    fail_input("'{}' is missing: expected the folder of a run that has trained", metrics.string());
  const SecondsOfSteps seconds = read_seconds(run / "timings.jsonl");
  double trained = 0;
  for (const auto& [step, time] : seconds) trained += time;
  const fs::path place = fs::canonical(run);
  WandbRun named;
  named.id = fmt::format("{:012x}", hash64(place.string()) >> 16);
  named.project = options.project;
  named.entity = options.entity;
  named.name = place.filename();
  named.start = changed_at(metrics) - trained;
  WandbExport report;
  report.folder = options.out / "wandb" /
                  fmt::format("offline-run-{:%Y%m%d_%H%M%S}-{}",
                              fmt::gmtime(static_cast<std::time_t>(named.start)), named.id);
  if (fs::exists(report.folder)) {
    fail_input("'{}' already exists: remove it, or choose another folder with --out",
               report.folder.string());
  }
  make_folders(report.folder);
  try {
    WandbFile file(report.folder / fmt::format("run-{}.wandb", named.id));
    write_run(run, file, named, seconds, report);
  } catch (...) {
    std::error_code ignored;  // the error that led here says more
    fs::remove_all(report.folder, ignored);
    throw;
  }
  return report;
}

}  // namespace trireme
