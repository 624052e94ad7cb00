// Conversion between checkpoints of ours and those of other programs, a few rows at a time: a model
// larger than memory converts.
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
  std::string kind;  // of the model at the other program: "LlamaForCausalLM"
  fs::path folder;   // of the checkpoint, or the folder of the other program
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
  std::string note;          // what the user should know, or ""
  std::int64_t made_of = 0;  // tensors: one may hold what several hold on the other side
};

// Makes `to` a run's folder with one checkpoint (weights in the element types of the model's files,
// the configuration), its tokenizer's files and config.toml. Without the states of an optimizer it
// is one of step 0, from which training begins; with them training resumes from their step. `to`
// must not hold a checkpoint yet. Refused (exit code 2): what the opened files turn out to lack.
ConversionReport import_model(const ForeignModel& model, const fs::path& to,
                              const std::string& program, ThreadPool* pool);
enum class HuggingFaceFiles : std::uint8_t {
  safetensors,  // model*.safetensors
  torch,        // pytorch_model*.bin, for older programs
};

struct ExportOptions {
  std::optional<DType> dtype;  // none: as stored
  // Those of the run's tokenizer; where unknown (-1) the ids that came along with an import count.
  SpecialTokens tokens;
  TokenizerFiles tokenizer;
  std::int64_t max_file_bytes = 5'000'000'000;
  HuggingFaceFiles files = HuggingFaceFiles::safetensors;  // of a Hugging Face folder
  ThreadPool* pool = &ThreadPool::global();                // reads; null: the calling thread
  FileProgress* progress = nullptr;
  std::stop_token stopped;  // ends it as an error does
};

// The configuration that a checkpoint carries, with `overrides` such as "data.vocab_file=...".
Config checkpoint_config(const fs::path& checkpoint,
                         const std::vector<std::string>& overrides = {});

// The special tokens that an imported checkpoint brought along; -1 and none in any other.
SpecialTokens imported_tokens(const CheckpointState& state);
void keep_tokens(CheckpointState& state, const SpecialTokens& tokens);

// Refused (exit code 2): a folder that holds anything.
void require_empty(const fs::path& to);

}  // namespace trireme
