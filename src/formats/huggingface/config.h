// Hugging Face's config.json: from it to a model of ours, and back.
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
  SpecialTokens tokens;  // those that lie in the vocabulary
  std::string note;      // about settings that have no effect, or ""
};

// Reads `folder`/config.json. Refused (exit code 2): a folder without it, values of the wrong type,
// models of another kind, and settings that our models cannot compute, naming file, key and value.
HuggingFaceModel read_huggingface_config(const fs::path& folder);
// The same from text; `name` stands for the file in messages.
HuggingFaceModel parse_huggingface_config(std::string_view text, const std::string& name);

// config.json and generation_config.json. `torch_dtype`: "float32", "bfloat16", "float16".
std::string huggingface_config_text(const HuggingFaceModel& model, std::string_view torch_dtype);
std::string huggingface_generation_text(const SpecialTokens& tokens);
// What neither it nor the weights say of how the model is trained, for the user to know; or "".
std::string huggingface_note(const ModelConfig& model);

}  // namespace trireme
