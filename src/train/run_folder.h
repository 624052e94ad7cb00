// A run's folder as people and tools read it: metrics, timings, TensorBoard, status, and the lock.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "checkpoint/progress.h"
#include "config/config.h"
#include "train/console.h"
#include "train/metrics.h"
#include "train/run_lock.h"
#include "train/run_status.h"
#include "train/tensorboard.h"

namespace trireme {

// No checkpoint needs what is written here: if it fails, as on a full disk, that is a warning, and
// training continues. Nothing is written before open().
class RunFolder {
 public:
  // `console` outlives it. So does `files`, which is notified when this process waits for the
  // storage; may be null.
  RunFolder(const Config& config, Console& console, FileProgress* files = nullptr);

  const fs::path& path() const { return path_; }
  // Refuses (exit code 2) a folder in which another process trains. On a file system without locks
  // there is a warning, and status.json says whether somebody does: one whose process is there or,
  // on another machine, whose status changes within a minute.
  void lock();
  bool locked() const { return lock_.has_value(); }
  // After each step, where the lock is not held: says that this process trains here, and fails
  // where another one has said so in the meantime.
  void guard_without_lock(const std::function<void()>& say);
  // After lock(): a sentence about the previous start if it was killed without a message.
  std::string killed_start() const;
  // Writes copies of the configuration and of the tokenizer, and opens the log files, which
  // continue after `step`.
  void open(const Config& config, std::int64_t step);

  void write_metrics(std::int64_t step, std::span<const Metric> line);
  void write_timings(std::int64_t step, std::span<const Metric> line);
  void write_scalars(std::int64_t step, std::int64_t samples, std::span<const Scalar> scalars);
  // Appends a line to events.jsonl, with the time. It stays if the run resumes from an earlier
  // step.
  void write_event(std::int64_t step, std::span<const Metric> line);
  // Makes all lines of the metrics durable.
  void sync();
  // status.saved < 0: by an earlier process, if at all.
  void write_status(RunStatus status, bool durable = true);
  // Any other file: `write` writes it.
  void write(const std::string& file, const std::function<void()>& write);

 private:
  fs::path path_;
  Console& console_;
  FileProgress* files_;
  std::optional<RunLock> lock_;
  std::chrono::steady_clock::time_point said_;  // that this process trains here
  std::optional<MetricsFile> metrics_, timings_;
  std::optional<TensorBoardFile> tensorboard_;
  std::set<std::string> broken_;  // that could not be written the last time
};

}  // namespace trireme
