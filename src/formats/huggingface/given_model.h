// The user's description of a model whose folder lacks one: --config, or settings.
#pragma once

#include <string>

#include "formats/foreign_model.h"
#include "formats/huggingface/names.h"
#include "formats/joined_tensors.h"

namespace trireme {

struct GivenModel {
  Config config;
  SpecialTokens tokens;
  const HuggingFaceKind* kind = nullptr;  // if given by a config.json
  fs::path huggingface;                   // folder of the config.json, possibly with a tokenizer
  std::string name;                       // for messages
  std::string note;                       // about settings of the config.json, or ""
  bool is_run = false;                    // configuration of a complete run
  ModelSettings settings;                 // settings still to be applied
};

// Reads a Trireme TOML file or a config.json; without either, the config.json in `folder` or
// else the settings. `hint`: advice for writing a file. Refused (exit code 2): none of these is
// given.
GivenModel read_given_model(const fs::path& folder, const fs::path& config,
                            const ModelSettings& settings, const std::string& hint = "");

// Applies the settings to the given model and determines its class: the given one, or an equivalent
// one. Appends to the note. Refused (exit code 2): see huggingface_kind().
HuggingFaceModel apply_settings(GivenModel& given, std::string& note);

// A folder's model without its weights, note and training position. Refused (exit code 2): tensors
// in `joined` that the model does not have.
ForeignModel describe_model(const GivenModel& given, const HuggingFaceModel& model,
                            ExpertStorage experts, const JoinedTensors& joined);

}  // namespace trireme
