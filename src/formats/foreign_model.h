// Models of other programs, opened and ready to be converted to ours.
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

// Where a run was whose optimizer's states came along.
struct ForeignTraining {
  std::int64_t step = 0;             // of the run
  std::int64_t optimizer_steps = 0;  // on which Adam's corrections depend
  std::int64_t samples = 0, tokens = 0;
  OptimizerConfig optimizer;
};

struct ForeignModel {
  std::string kind;       // for the report: "LlamaForCausalLM"
  ModelConfig model;      // resolved
  SpecialTokens tokens;   // as far as the files give them
  TensorMapping mapping;  // between ours and those of `weights`; with `training` moments too
  std::unique_ptr<TensorSource> weights;
  // Copies the tokenizer's files to a folder, which is made if there are any.
  std::function<TokenizerFiles(const fs::path& to)> tokenizer;
  std::string note;  // what the user should know, or ""
  std::optional<ForeignTraining> training;
  std::optional<Config> config;  // of the run; `model` counts for its model
};

// Settings such as "model.max_positions=4096", in order, for what the files of other programs do
// not say or say differently: the note says what they changed. Refused (exit code 2): keys of other
// sections.
using ModelSettings = std::vector<std::string>;
ModelConfig with_settings(const ModelConfig& model, const ModelSettings& settings,
                          std::string& note);
// Appends, with "; " between.
void add_note(std::string& note, const std::string& more);

}  // namespace trireme
