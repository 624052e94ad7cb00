// What a user gives of a model whose folder does not say what it is: --config, or settings.
#pragma once

#include <optional>
#include <string>

#include "formats/foreign_model.h"
#include "formats/huggingface/names.h"

namespace trireme {

struct GivenModel {
  Config config;
  SpecialTokens tokens;
  std::optional<HuggingFaceKind> kind;  // of a config.json
  fs::path huggingface;                 // the folder of a config.json, where a tokenizer may lie
  std::string name;                     // for messages
  bool is_run = false;                  // the configuration of a whole run
};

// From a TOML file of Trireme or a config.json; without one from the config.json in `folder` or,
// where it is not there either, from the settings. `hint`: what a user may need to know to write
// a file. Refused (exit code 2): none of these.
GivenModel read_given_model(const fs::path& folder, const fs::path& config,
                            const ModelSettings& settings, const std::string& hint = "");

// The tokenizer next to a config.json.
void give_tokenizer(ForeignModel& out, const GivenModel& given, HuggingFaceKind kind);

}  // namespace trireme
