// Hugging Face's config.json: reading it as a model, and writing it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "config/config.h"
#include "formats/huggingface/kind.h"
#include "formats/tokens.h"

namespace trireme {

struct HuggingFaceModel {
  const HuggingFaceKind* kind = nullptr;
  ModelConfig model;     // resolved
  SpecialTokens tokens;  // those within the vocabulary
  std::string note;      // about ignored settings, or ""
};

// Reads `folder`/config.json. Refused (exit code 2): a missing file, values of the wrong type,
// unknown classes, and settings that our models cannot compute; messages name file, key and value.
HuggingFaceModel read_huggingface_config(const fs::path& folder);
// Same, from text; `name` stands for the file in messages.
HuggingFaceModel parse_huggingface_config(std::string_view text, const std::string& name);

// Takes the tokens of `folder`/generation_config.json, if it exists: those that end a generation
// replace config.json's, as in transformers, with a note if they differ.
void take_generation_tokens(const fs::path& folder, HuggingFaceModel& model);

// Texts of both JSON files. `torch_dtype`: "float32", "bfloat16", "float16".
std::string huggingface_config_text(const HuggingFaceModel& model, std::string_view torch_dtype);
std::string huggingface_generation_text(const SpecialTokens& tokens);
// Training settings that neither config.json nor the weights record, for the user; or "".
std::string huggingface_note(const ModelConfig& model);

}  // namespace trireme
