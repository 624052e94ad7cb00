// The tokenizer's files of a Hugging Face folder as a tokenizer of ours, and back.
#pragma once

#include <string>

#include "base/file.h"
#include "formats/huggingface/config.h"

namespace trireme {

// Copies the tokenizer's files of a Hugging Face folder to `to`, which is made if there are any,
// and with them a chat template and generation_config.json. Returns the paths of the copies and the
// type of tokenizer; an empty type if none is supported.
TokenizerFiles import_huggingface_tokenizer(const fs::path& folder, const fs::path& to,
                                            const HuggingFaceKind& kind);

// Writes the tokenizer into a Hugging Face folder: the vocabulary's files, tokenizer.json and
// tokenizer_config.json, and a chat template and generation_config.json that lie next to it.
// Returns one sentence about what is missing from a complete folder, or "".
std::string export_huggingface_tokenizer(const TokenizerFiles& files, const fs::path& folder,
                                         std::int64_t max_positions);

}  // namespace trireme
