// Writes and repairs metrics.jsonl.
#include "train/reports/metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "train/reports/log_file.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

std::string json_string(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

struct JsonValue {
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    if (!std::isfinite(value)) return "null";
    std::string text = fmt::format("{}", value);  // shortest round-trip representation
    // Readers must not mistake 1.0 or 1e20 for an integer.
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
  }
  std::string operator()(std::string_view value) const { return json_string(value); }
};

// Whether a line is valid and its step is at most `last_step`.
bool is_kept(std::string_view line, std::int64_t last_step) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return false;
  const auto step = json.find("step");
  return step != json.end() && step->is_number_integer() && step->get<std::int64_t>() <= last_step;
}

std::string kept_lines(std::string_view text, std::int64_t last_step) {
  std::string kept;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // torn
    const std::string_view line = text.substr(0, end);
    if (is_kept(line, last_step)) kept.append(line).append("\n");
    text.remove_prefix(end + 1);
  }
  return kept;
}

void repair(const fs::path& path, std::int64_t last_step) {
  const std::string text = read_file(path);
  const std::string kept = kept_lines(text, last_step);
  if (kept.size() == text.size()) return;
  if (!text.starts_with(kept)) {
    write_file_durably(path, kept);
    return;
  }
  File file(path, File::Mode::append);
  file.truncate(kept.size());
  file.sync();
}

}  // namespace

std::string metrics_line(std::int64_t step, std::span<const Metric> metrics) {
  std::string line = fmt::format("{{\"step\": {}", step);
  for (const Metric& metric : metrics) {
    line +=
        fmt::format(", {}: {}", json_string(metric.name), std::visit(JsonValue{}, metric.value));
  }
  return line + "}";
}

bool has_metric(const fs::path& path, std::int64_t step, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains(std::string(name))) continue;
    if (const auto of = json.find("step"); of != json.end() && *of == step) return true;
  }
  return false;
}

MetricsFile::MetricsFile(const fs::path& path, std::int64_t last_step) {
  if (fs::exists(path)) repair(path, last_step);
  file_ = File(path, File::Mode::append);
}

void MetricsFile::write(std::int64_t step, std::span<const Metric> metrics) {
  append_record(file_, metrics_line(step, metrics) + "\n");
}

}  // namespace trireme
