// User-facing files of a run's folder: metrics, timings, TensorBoard, status, and the lock.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "checkpoint/progress.h"
#include "config/config.h"
#include "train/reports/console.h"
#include "train/reports/metrics.h"
#include "train/reports/tensorboard.h"
#include "train/run/run_lock.h"
#include "train/run/run_status.h"

namespace trireme {

// Checkpoints do not depend on these files: write errors, e.g. on a full disk, are only warnings,
// and training continues. Nothing is written before open().
class RunFolder {
 public:
  // `console` must outlive it, and so must `files`, which is notified while this process waits for
  // storage; `files` may be null.
  RunFolder(const Config& config, Console& console, FileProgress* files = nullptr);

  const fs::path& path() const { return path_; }
  // Rejects (exit code 2) a folder in which another process is training. On a file system without
  // locks it warns and relies on status.json: another process is assumed to train if it exists or,
  // on another machine, if its status changes within a minute.
  void lock();
  bool locked() const { return lock_.has_value(); }
  // Call after each step if the lock is not held: publishes that this process trains here, and
  // fails if another process has done so in the meantime.
  void guard_without_lock(const std::function<void()>& say);
  // Call after lock(): a sentence about the previous start if it was killed without a message.
  std::string killed_start() const;
  // Writes copies of the configuration and of the tokenizer, and opens the log files, which are
  // appended to after `step`.
  void open(const Config& config, std::int64_t step);

  void write_metrics(std::int64_t step, std::span<const Metric> line);
  void write_timings(std::int64_t step, std::span<const Metric> line);
  void write_scalars(std::int64_t step, std::int64_t samples, std::span<const Scalar> scalars);
  bool has_timing(std::int64_t step, std::string_view name) const;
  // Appends a timestamped line to events.jsonl. It is kept if the run resumes from an earlier
  // step.
  void write_event(std::int64_t step, std::span<const Metric> line);
  // Makes all lines of the metrics durable.
  void sync();
  // status.saved < 0: unknown here; saved by an earlier process, if at all.
  void write_status(RunStatus status, bool durable = true);
  // Writes any other file by calling `write`.
  void write(const std::string& file, const std::function<void()>& write);

 private:
  fs::path path_;
  Console& console_;
  FileProgress* files_;
  std::optional<RunLock> lock_;
  std::chrono::steady_clock::time_point said_;  // time of the last say()
  std::optional<MetricsFile> metrics_, timings_;
  std::optional<TensorBoardFile> tensorboard_;
  std::set<std::string> broken_;  // files whose last write failed
};

}  // namespace trireme
