// Files that may fail.
#include "train/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "checkpoint/layout.h"
#include "data/configured_tokenizer.h"

namespace trireme {

RunFolder::RunFolder(const Config& config, Console& console)
    : path_(config.run.dir), console_(console) {}

// The disk may be full for them and have room again later.
void RunFolder::write(const std::string& file, const std::function<void()>& write) {
  try {
    write();
    broken_.erase(file);
  } catch (const std::exception& error) {
    if (broken_.insert(file).second) {
      console_.warn_now(
          fmt::format("{}; training goes on without these lines of {}", error.what(), file));
    }
  }
}

// Nobody trains here now, whatever status.json says.
std::string RunFolder::killed_start() const {
  const fs::path path = path_ / "status.json";
  std::error_code error;
  if (!fs::exists(path, error)) return "";
  const std::optional<RunStatus> status = parse_status(read_file(path, 1 << 20));
  if (!status || status->state != "running") return "";
  return fmt::format(
      "the start before this one ended without a word after step {} or later: it was killed, or "
      "its "
      "machine failed",
      status->step);
}

void RunFolder::open(const Config& config, std::int64_t step) {
  keep_tokenizer(config, path_);
  write_file_durably(path_ / "config.toml", to_toml(config));
  write("metrics.jsonl", [&] { metrics_.emplace(path_ / "metrics.jsonl", step); });
  write("timings.jsonl", [&] { timings_.emplace(path_ / "timings.jsonl", step); });
  if (config.log.tensorboard)
    write("tensorboard", [&] { tensorboard_.emplace(path_ / "tensorboard", step); });
}

void RunFolder::write_metrics(std::int64_t step, std::span<const Metric> line) {
  if (metrics_) write("metrics.jsonl", [&] { metrics_->write(step, line); });
}

void RunFolder::write_timings(std::int64_t step, std::span<const Metric> line) {
  if (timings_) write("timings.jsonl", [&] { timings_->write(step, line); });
}

void RunFolder::write_event(std::int64_t step, std::span<const Metric> line) {
  const std::string time = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  std::vector<Metric> all(line.begin(), line.end());
  all.push_back({"time", std::string_view(time)});
  write("events.jsonl", [&] {
    const std::string text = metrics_line(step, all) + "\n";
    File(path_ / "events.jsonl", File::Mode::append).write(text.data(), text.size());
  });
}

void RunFolder::write_scalars(std::int64_t step, std::int64_t samples,
                              std::span<const Scalar> scalars) {
  if (tensorboard_) write("tensorboard", [&] { tensorboard_->write_both(step, samples, scalars); });
}

void RunFolder::sync() {
  if (metrics_) write("metrics.jsonl", [&] { metrics_->sync(); });
}

void RunFolder::write_status(RunStatus status, bool durable) {
  write("status.json", [&] {
    if (status.saved < 0) {
      const auto steps = saved_steps(path_ / "checkpoints");
      status.saved = steps.empty() ? 0 : steps.back();
    }
    status.step = std::max(status.step, status.saved);
    trireme::write_status(path_ / "status.json", status, durable);
  });
}

}  // namespace trireme
