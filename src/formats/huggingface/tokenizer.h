// Converts the tokenizer files of a Hugging Face folder to a Trireme tokenizer, and back.
#pragma once

#include <string>

#include "base/file.h"
#include "formats/huggingface/config.h"

namespace trireme {

// Copies the tokenizer files of a Hugging Face folder, with a chat template and
// generation_config.json, to `to`, which is created if there are any. Returns the copies' paths and
// the tokenizer type; an empty type if it is not supported.
TokenizerFiles import_huggingface_tokenizer(const fs::path& folder, const fs::path& to,
                                            const HuggingFaceKind& kind);

// Writes a tokenizer to a Hugging Face folder: vocabulary files, tokenizer.json and
// tokenizer_config.json, and a chat template and generation_config.json found next to it. Returns a
// sentence about what is missing from a complete folder, or "".
std::string export_huggingface_tokenizer(const TokenizerFiles& files, const fs::path& folder,
                                         std::int64_t max_positions);

}  // namespace trireme
