// Models of other programs, opened for conversion.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/config.h"
#include "formats/tokens.h"
#include "tensors/mapping.h"

namespace trireme {

// Position of a run whose optimizer states are imported.
struct ForeignTraining {
  std::int64_t step = 0;             // the run's step
  std::int64_t optimizer_steps = 0;  // for Adam's bias correction
  std::int64_t samples = 0, tokens = 0;
  OptimizerConfig optimizer;
};

struct ForeignModel {
  std::string kind;       // for the report: "LlamaForCausalLM"
  ModelConfig model;      // resolved
  SpecialTokens tokens;   // as far as the files define them
  TensorMapping mapping;  // between our tensors and `weights`; includes moments if `training`
  std::unique_ptr<TensorSource> weights;
  // Copies the tokenizer's files to a folder, which is created if there are any.
  std::function<TokenizerFiles(const fs::path& to)> tokenizer;
  std::string note;  // a note for the user, or ""
  std::optional<ForeignTraining> training;
  std::optional<Config> config;  // of the run; its model is replaced by `model`
};

// Settings such as "model.max_positions=4096", applied in order, for values that the files
// lack or have wrong; the note lists the changes. Refused (exit code 2): keys of other
// sections.
using ModelSettings = std::vector<std::string>;
ModelConfig with_settings(const ModelConfig& model, const ModelSettings& settings,
                          std::string& note);
// Appends with the separator "; ".
void add_note(std::string& note, const std::string& more);

}  // namespace trireme
