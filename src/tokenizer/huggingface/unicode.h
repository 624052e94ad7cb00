// Characters as Hugging Face's tokenizers library sees them: its parts follow Unicode 8 to 17, each
// a version of its own.
#pragma once

#include "tokenizer/unicode.h"

namespace trireme {

extern const UnicodeRules hf_unicode;

// Characters that StripAccents removes.
bool is_hf_mark(char32_t c);
// Characters that Digits isolates.
bool is_hf_number(char32_t c);

}  // namespace trireme
