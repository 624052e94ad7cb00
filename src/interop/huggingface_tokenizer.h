// The tokenizer's files of a Hugging Face folder: which of ours they are, and the reverse.
#pragma once

#include <string>

#include "base/file.h"
#include "interop/huggingface_config.h"

namespace trireme {

// As in the [data] section of a configuration; empty type: none.
struct TokenizerFiles {
  std::string type;  // gpt2 | hf | bert | bert_cased | sentencepiece | llama2 | tiktoken | null
  std::string vocab_file, merge_file, model_file;
};

// Copies the tokenizer's files of a Hugging Face folder into `to` (made if there is anything to
// copy) and says how we read them. Empty type if there are none that we know.
TokenizerFiles import_huggingface_tokenizer(const fs::path& folder, const fs::path& to,
                                            HuggingFaceKind kind);

// Writes the tokenizer into a Hugging Face folder: the vocabulary's files, tokenizer.json and
// tokenizer_config.json. Returns what is missing for a complete folder, in one sentence, or "".
std::string export_huggingface_tokenizer(const TokenizerFiles& files, const fs::path& folder,
                                         std::int64_t max_positions);

}  // namespace trireme
