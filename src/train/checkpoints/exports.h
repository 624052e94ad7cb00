// Export of checkpoints as Hugging Face folders (checkpoint.export) while training continues.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <set>
#include <stop_token>

#include "checkpoint/progress.h"
#include "config/config.h"
#include "formats/huggingface/export.h"
#include "train/reports/console.h"

namespace trireme {

// Contents of an export besides weights: tokenizer files and special tokens. Reads the
// tokenizer.
ExportOptions export_options(const Config& config);

// Exports one folder at a time, RUN/exports/step-<step>, which gets this name when it is complete.
// Write errors are warnings, since the checkpoint itself exists. Used by a single thread of rank
// 0.
class Exports {
 public:
  // The arguments must outlive it. Rejects (exit code 2) models without a transformers class.
  Exports(const Config& config, Console& console, FileProgress* files);
  // Creates the folder, removes what a killed run left in it, and writes the exports that are
  // missing up to the step that the run resumes from (-1: none); names those whose checkpoint no
  // longer exists. Rejects a folder that cannot be created.
  void open(std::int64_t loaded_step, std::int64_t last_step);
  ~Exports() { stop(); }

  // Starts to export the run's checkpoint of a step, if an export is due.
  void start(std::int64_t step);
  // Reports completed exports.
  void poll();
  // Waits for the export in progress; a signal to the process stops it.
  void finish();
  // Cancels the export in progress and removes its files.
  void stop();

 private:
  struct Written {
    fs::path folder;
    std::int64_t bytes = 0;
    double seconds = 0;
  };

  bool is_due(std::int64_t step) const;
  std::set<std::int64_t> missing_up_to(std::int64_t loaded_step) const;
  fs::path folder() const { return fs::path(config_.run.dir) / "exports"; }
  fs::path checkpoint(std::int64_t step) const;
  Written write(std::int64_t step, const std::stop_token& stopped) const;
  void report();

  const Config& config_;
  std::int64_t last_step_ = -1;  // of the run
  Console& console_;
  FileProgress* files_;
  std::int64_t step_ = -1;  // of the export in progress
  std::stop_source stop_;
  std::future<Written> under_way_;
};

}  // namespace trireme
