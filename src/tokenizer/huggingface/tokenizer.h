// Tokenizers from a tokenizer.json as Hugging Face's library writes it.
#pragma once

#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

namespace trireme {

// `model` is the file or the folder that holds it. A tokenizer_config.json next to it names the
// special tokens; without it they are known by their usual spellings. EOD is EOS. The parts that
// are understood are listed in hf_normalizer.h, hf_pre_tokenizer.h, hf_model.h, hf_decoder.h and
// hf_template.h; truncation and padding are left to the caller. Errors: anything else is refused,
// naming the place in the file.
std::unique_ptr<Tokenizer> load_hf(const std::string& model, bool special_text);

// Whether an id is among the "added_tokens" of a tokenizer of this kind, special or not.
bool is_added_token(const Tokenizer& tokenizer, std::int32_t id);

}  // namespace trireme
