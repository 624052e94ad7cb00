// One thread per export, which reads and writes a few rows at a time.
#include "train/checkpoints/exports.h"

#include <chrono>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "data/configured_tokenizer.h"
#include "formats/huggingface/config.h"
#include "model/transformer.h"
#include "runtime/memory.h"
#include "train/watch/interrupt.h"

namespace trireme {
namespace {

constexpr std::chrono::milliseconds between_looks{50};
constexpr const char* unfinished = ".tmp";

void remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) fail("cannot remove '{}': {}", folder.string(), error.message());
}

std::int64_t bytes_of(const fs::path& folder) {
  std::int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) bytes += static_cast<std::int64_t>(entry.file_size());
  return bytes;
}

// Special tokens of the run's tokenizer that Hugging Face's files list.
SpecialTokens special_tokens(const Config& config) {
  if (config.data.tokenizer.empty()) return {};
  const auto tokenizer = make_tokenizer(config);
  const SpecialIds& ids = tokenizer->special();
  const std::int32_t end = ids.eos >= 0 ? ids.eos : ids.eod;
  return {ids.bos >= 0 ? ids.bos : end, end, ids.pad, {}};
}

}  // namespace

ExportOptions export_options(const Config& config) {
  ExportOptions options;
  options.tokens = special_tokens(config);
  options.tokenizer = {config.data.tokenizer, config.data.vocab_file, config.data.merge_file,
                       config.data.tokenizer_model};
  return options;
}

Exports::Exports(const Config& config, Console& console, FileProgress* files)
    : config_(config), console_(console), files_(files) {
  if (config.checkpoint.export_format != ExportFormat::none) huggingface_kind(config.model);
}

void Exports::open(std::int64_t loaded_step, std::int64_t last_step) {
  last_step_ = last_step;
  if (config_.checkpoint.export_format == ExportFormat::none) return;
  make_folders(folder());
  for (const std::int64_t step : missing_up_to(loaded_step)) {
    if (!fs::exists(checkpoint(step))) {
      console_.warn(fmt::format(
          "the export of step {} was interrupted, and its checkpoint no longer exists: '{}' will "
          "be missing",
          step, (folder() / step_folder(step)).string()));
    } else {
      start(step);  // one after the other: it waits for the one before
    }
  }
}

// Exports that are due for existing checkpoints, including those interrupted by a kill. Incomplete
// exports are removed.
std::set<std::int64_t> Exports::missing_up_to(std::int64_t loaded_step) const {
  std::set<std::int64_t> steps;
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (entry.path().extension() != unfinished) continue;
    if (const auto step = step_of(entry.path().stem().string())) steps.insert(*step);
    remove_folder(entry.path());
  }
  for (const std::int64_t step : saved_steps(checkpoint(0).parent_path())) steps.insert(step);
  std::erase_if(steps, [&](std::int64_t step) {
    return step > loaded_step || !is_due(step) || fs::exists(folder() / step_folder(step));
  });
  return steps;
}

bool Exports::is_due(std::int64_t step) const {
  const CheckpointConfig& c = config_.checkpoint;
  if (c.export_format == ExportFormat::none) return false;
  return step == last_step_ || (c.export_interval > 0 && step % c.export_interval == 0);
}

void Exports::start(std::int64_t step) {
  if (!is_due(step) || InterruptGuard::pending() != 0) return;
  finish();
  step_ = step;
  stop_ = {};
  under_way_ = std::async(std::launch::async, [this, step, stopped = stop_.get_token()] {
    return write(step, stopped);
  });
}

fs::path Exports::checkpoint(std::int64_t step) const {
  return fs::path(config_.run.dir) / "checkpoints" / step_folder(step);
}

Exports::Written Exports::write(std::int64_t step, const std::stop_token& stopped) const {
  const auto begin = std::chrono::steady_clock::now();
  const fs::path whole = folder() / step_folder(step), part = whole.string() + unfinished;
  remove_folder(part);
  ExportOptions options = export_options(config_);
  if (const DType dtype = compute_dtype(config_.run.precision); dtype != DType::f64)
    options.dtype = dtype;
  options.pool = nullptr;  // leaves the cores to training
  options.progress = files_;
  options.stopped = stopped;
  export_huggingface(checkpoint(step), part, options);
  remove_folder(whole);  // from a previous run over these steps
  rename_durably(part, whole);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {whole, bytes_of(whole), seconds.count()};
}

void Exports::report() {
  try {
    const Written written = under_way_.get();
    console_.print_now(fmt::format("exported {} ({}, {:.2f} s)", written.folder.string(),
                                   bytes_to_text(written.bytes), written.seconds));
  } catch (const std::exception& error) {
    console_.warn_now(fmt::format(
        "step {} was not exported: {}; export its checkpoint with `trireme convert --to hf`", step_,
        error.what()));
  }
}

void Exports::poll() {
  if (!under_way_.valid()) return;
  if (under_way_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) report();
}

void Exports::finish() {
  if (!under_way_.valid()) return;
  const FileProgress::Phase phase(files_, "is exporting a checkpoint");
  while (under_way_.wait_for(between_looks) != std::future_status::ready)
    if (InterruptGuard::pending() != 0) stop_.request_stop();
  report();
}

void Exports::stop() {
  if (!under_way_.valid()) return;
  stop_.request_stop();
  finish();
}

}  // namespace trireme
