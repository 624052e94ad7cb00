// Whether a tokenizer consists of a vocabulary alone: its type then says everything else.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/file.h"

namespace trireme {

// What a folder's files say beyond vocab.json and merges.txt of GPT-2, vocab.txt of BERT or
// tokenizer.model of Llama 2, as the beginning of a sentence; "" if nothing.
std::string beyond_gpt2_vocabulary(const fs::path& folder);
std::string beyond_bert_vocabulary(const fs::path& folder);
std::string beyond_llama2_model(const fs::path& folder);

// Lines of vocab.txt and merges of merges.txt, without the white space that readers trim.
std::vector<std::string> vocabulary_lines(const fs::path& path);
std::vector<std::string> merge_lines(const fs::path& path);

// The ids of BERT's tokens, the lines of vocab.txt; the last of equal lines counts, as in
// transformers.
nlohmann::json line_numbers(const fs::path& path);

// The post-processor in a tokenizer.json of BERT, with the ids of [CLS] and [SEP].
nlohmann::json bert_post_processor(const nlohmann::json& cls, const nlohmann::json& sep);

// Whether BERT's texts are lowercased, according to tokenizer_config.json.
bool lowers_case(const fs::path& folder);

}  // namespace trireme
