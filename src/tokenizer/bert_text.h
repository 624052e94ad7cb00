// BERT's steps before WordPiece: normalization, and the split into words.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace trireme {

// In this order: drops NUL, U+FFFD and control characters, turns white space into spaces; puts
// spaces around ideographs; strips accents (NFD without nonspacing marks); lower-cases.
struct BertNormalizer {
  bool clean_text = true;
  bool space_ideographs = true;
  std::optional<bool> strip_accents;  // where absent, as `lowercase`
  bool lowercase = true;
  const UnicodeRules* unicode = &newest_unicode;

  std::string apply(std::string_view text) const;
};

// Calls emit(word) for each maximal stretch without white space and punctuation, and for each
// punctuation character. `text` is valid UTF-8.
template <class Emit>
void split_bert_words(std::string_view text, const UnicodeRules& unicode, Emit&& emit) {
  const char* end = text.data() + text.size();
  const char* word = text.data();
  for (const char* p = word; p < end;) {
    const DecodedChar c = decode_utf8(p, end);
    const bool space = is_white_space(c.value);
    if (!space && !unicode.is_punctuation(c.value)) {
      p += c.length;
      continue;
    }
    if (word < p) emit(std::string_view(word, static_cast<std::size_t>(p - word)));
    if (!space) emit(std::string_view(p, c.length));
    p += c.length;
    word = p;
  }
  if (word < end) emit(std::string_view(word, static_cast<std::size_t>(end - word)));
}

}  // namespace trireme
