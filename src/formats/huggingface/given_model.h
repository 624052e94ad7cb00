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
  const HuggingFaceKind* kind = nullptr;  // of a config.json
  fs::path huggingface;                   // the folder of a config.json, where a tokenizer may lie
  std::string name;                       // for messages
  bool is_run = false;                    // the configuration of a whole run
  ModelSettings settings;                 // those that have not made it
};

// From a TOML file of Trireme or a config.json; without one from the config.json in `folder` or,
// where it is not there either, from the settings. `hint`: what a user may need to know to write
// a file. Refused (exit code 2): none of these.
GivenModel read_given_model(const fs::path& folder, const fs::path& config,
                            const ModelSettings& settings, const std::string& hint = "");

// The given model after the settings, of the given kind or of that which computes the same. Appends
// to the note. Refused (exit code 2): see huggingface_kind().
HuggingFaceModel apply_settings(GivenModel& given, std::string& note);

// All of a folder's model but its weights, its note and where training was. Refused (exit code 2):
// tensors in `joined` that the model does not have.
ForeignModel describe_model(const GivenModel& given, const HuggingFaceModel& model,
                            ExpertStorage experts, const JoinedTensors& joined);

}  // namespace trireme
