// Tokenizer of a foreign folder: special tokens and files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// Ids of special tokens; -1: not defined.
struct SpecialTokens {
  std::int64_t bos = -1, eos = -1, pad = -1;
  std::vector<std::int64_t> further_eos;  // additional end tokens for generation
};

// Tokenizer settings as in the [data] section; empty type: no tokenizer.
struct TokenizerFiles {
  std::string type;  // gpt2 | hf | bert | bert_cased | sentencepiece | llama2 | tiktoken | null
  std::string vocab_file, merge_file, model_file;
  std::string note;  // why there is none although the folder has files of one
};

}  // namespace trireme
