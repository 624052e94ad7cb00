// The files of a run's folder, whose writes may fail.
#include "train/run/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <thread>
#include <vector>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "data/configured_tokenizer.h"

namespace trireme {

namespace {

using SteadyClock = std::chrono::steady_clock;

// Without a lock: interval at which this process announces that it trains, and maximum silence of
// another one.
constexpr std::chrono::seconds between_signs{15}, silence{60};

// Returns the writer of status.json, if it states that a process is training.
std::optional<StatusWriter> who_trains(const fs::path& folder) {
  const fs::path path = folder / "status.json";
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const std::string text = read_file(path, 1 << 20);
  const std::optional<RunStatus> status = parse_status(text);
  if (!status || status->state != "running") return std::nullopt;
  return parse_status_writer(text);
}

bool is_on_this_machine(const StatusWriter& writer) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return writer.host == host;
}

// Whether the process is alive, and is a process of this program (not a reused PID).
bool lives(const StatusWriter& writer) {
  if (writer.pid <= 0 || ::kill(static_cast<pid_t>(writer.pid), 0) != 0) return false;
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error),
                 other = fs::read_symlink(fmt::format("/proc/{}/exe", writer.pid), error);
  return error || own.filename() == other.filename();
}

[[noreturn]] void refuse_second(const fs::path& folder, const StatusWriter& writer) {
  fail_input(
      "process {} on {} is training in '{}', according to its status.json: wait until it has "
      "ended, or give this run its own folder (run.dir)",
      writer.pid, writer.host, folder.string());
}

}  // namespace

RunFolder::RunFolder(const Config& config, Console& console, FileProgress* files)
    : path_(config.run.dir), console_(console), files_(files) {}

void RunFolder::lock() {
  lock_.emplace(path_.string());
  if (lock_->problem().empty()) return;
  console_.warn(fmt::format(
      "cannot lock '{}': {}; the file system does not support locks (on Lustre, mount it with "
      "flock), so a second job in this folder is detected late",
      path_.string(), lock_->problem()));
  const std::optional<StatusWriter> writer = who_trains(path_);
  if (!writer || writer->is_this_process()) return;
  if (is_on_this_machine(*writer)) {
    if (lives(*writer)) refuse_second(path_, *writer);
    return;
  }
  const auto left = silence - std::chrono::duration<double>(std::max(0.0, writer->age_s()));
  const auto end = SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(left);
  if (left.count() > 0) {
    console_.print(fmt::format(
        "note: process {} on {} was training in this folder {:.0f} s ago; waiting for {:.0f} s "
        "to see whether it still is",
        writer->pid, writer->host, std::max(0.0, writer->age_s()), left.count()));
  }
  while (SteadyClock::now() < end) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const std::optional<StatusWriter> now = who_trains(path_);
    if (!now) return;
    if (*now != *writer) refuse_second(path_, *now);
  }
}

void RunFolder::guard_without_lock(const std::function<void()>& say) {
  if (!lock_ || lock_->problem().empty()) return;
  const auto now = SteadyClock::now();
  if (now - said_ < between_signs) return;
  said_ = now;
  if (const auto writer = who_trains(path_); writer && !writer->is_this_process()) {
    fail(
        "process {} on {} has also started training in '{}': this one stops, because both would "
        "write the same files",
        writer->pid, writer->host, path_.string());
  }
  say();
}

// A failed write loses its lines; later ones are tried again, since a full disk may get space.
void RunFolder::write(const std::string& file, const std::function<void()>& write) {
  const FileProgress::Phase phase(files_, "is writing the files of its log");
  try {
    write();
    broken_.erase(file);
  } catch (const std::exception& error) {
    if (broken_.insert(file).second) {
      console_.warn_now(fmt::format("{}; training continues without the remaining lines of {}",
                                    error.what(), file));
    }
  }
}

// No process is training here now, whatever status.json says.
std::string RunFolder::killed_start() const {
  const fs::path path = path_ / "status.json";
  std::error_code error;
  if (!fs::exists(path, error)) return "";
  const std::optional<RunStatus> status = parse_status(read_file(path, 1 << 20));
  if (!status || status->state != "running") return "";
  return fmt::format(
      "the start before this one ended without a message after step {} or later: it was killed, or "
      "its machine failed",
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

bool RunFolder::has_timing(std::int64_t step, std::string_view name) const {
  return has_metric(path_ / "timings.jsonl", step, name);
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
