// Conversion between Trireme checkpoints and other programs' formats, a few rows at a time, so that
// models larger than memory can be converted.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "base/dtype.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "checkpoint/manifest.h"
#include "checkpoint/progress.h"
#include "config/config.h"
#include "formats/foreign_model.h"

namespace trireme {

struct ConversionReport {
  std::string kind;  // the other program's model class: "LlamaForCausalLM"
  fs::path folder;   // the checkpoint's, or the other program's folder
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
  std::string note;          // a note for the user, or ""
  std::int64_t made_of = 0;  // source tensors: one may be split into or joined from several
};

// Creates a run's folder `to` with one checkpoint (weights in the types of the model's files, and
// the configuration), the tokenizer's files and config.toml. Without optimizer states the
// checkpoint has step 0, from which training starts; with them, training resumes from their step.
// `to` must not contain a checkpoint. Refused (exit code 2): incomplete files.
ConversionReport import_model(const ForeignModel& model, const fs::path& to,
                              const std::string& program, ThreadPool* pool);
enum class HuggingFaceFiles : std::uint8_t {
  safetensors,  // model*.safetensors
  torch,        // pytorch_model*.bin, for older programs
};

struct ExportOptions {
  std::optional<DType> dtype;  // nullopt: as stored
  // Special tokens of the run's tokenizer; -1 falls back to the ids stored by an import.
  SpecialTokens tokens;
  TokenizerFiles tokenizer;
  std::int64_t max_file_bytes = 5'000'000'000;
  HuggingFaceFiles files = HuggingFaceFiles::safetensors;  // of a Hugging Face folder
  ThreadPool* pool = &ThreadPool::global();                // for reading; null: the calling thread
  FileProgress* progress = nullptr;
  std::stop_token stopped;  // aborts the conversion with an error
};

// The configuration stored in a checkpoint, with `overrides` such as "data.vocab_file=..." applied.
Config checkpoint_config(const fs::path& checkpoint,
                         const std::vector<std::string>& overrides = {});

// Special tokens stored in an imported checkpoint; -1 and empty for any other checkpoint.
SpecialTokens imported_tokens(const CheckpointState& state);
void keep_tokens(CheckpointState& state, const SpecialTokens& tokens);

// Refused (exit code 2): a folder that is not empty.
void require_empty(const fs::path& to);

}  // namespace trireme
