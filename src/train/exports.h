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
#include "train/console.h"

namespace trireme {

// Contents of an export besides the weights: the tokenizer's files and special tokens. Reads the
// tokenizer.
ExportOptions export_options(const Config& config);

// One folder at a time, RUN/exports/step-<step>. It appears under that name when it is complete;
// what cannot be written is a warning, since the checkpoint itself is there. Used by one thread of
// the first rank.
class Exports {
 public:
  // The arguments outlive it. Refuses (exit code 2) a model that no class of transformers is.
  Exports(const Config& config, Console& console, FileProgress* files);
  // Creates the folder, removes what a killed run left in it, and writes the exports that are
  // missing up to the step that the run resumes from (-1: none); names those whose checkpoint no
  // longer exists. Rejects a folder that cannot be created.
  void open(std::int64_t loaded_step, std::int64_t last_step);
  ~Exports() { stop(); }

  // Begins to export the run's checkpoint of a step, where one is due.
  void start(std::int64_t step);
  // Reports what is complete.
  void poll();
  // Waits for what has begun; a signal to the process stops it.
  void finish();
  // Gives up what has begun, and leaves nothing of it.
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
  std::int64_t step_ = -1;  // of the export under way
  std::stop_source stop_;
  std::future<Written> under_way_;
};

}  // namespace trireme
