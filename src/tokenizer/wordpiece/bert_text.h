// BERT's steps before WordPiece: normalization, and the split into words.
#pragma once

#include <array>
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

// Kinds of characters that words end at.
enum class BertBreak : unsigned char { none, space, punctuation };

// Of ASCII characters, about which all versions of Unicode agree.
inline constexpr std::array<BertBreak, 128> bert_ascii_breaks = [] {
  std::array<BertBreak, 128> breaks{};
  for (std::size_t c = 0; c < breaks.size(); ++c) {
    const bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    const bool digit = c >= '0' && c <= '9';
    if (c == ' ' || (c >= '\t' && c <= '\r')) breaks[c] = BertBreak::space;
    if (c > ' ' && c < 0x7F && !letter && !digit) breaks[c] = BertBreak::punctuation;
  }
  return breaks;
}();

// Calls emit(word) for each maximal stretch without white space and punctuation, and for each
// punctuation character. `text` is valid UTF-8.
template <class Emit>
void split_bert_words(std::string_view text, const UnicodeRules& unicode, Emit&& emit) {
  const auto break_of = [&](char32_t c) {
    if (c < 0x80) return bert_ascii_breaks[c];
    if (is_white_space(c)) return BertBreak::space;
    return unicode.is_punctuation(c) ? BertBreak::punctuation : BertBreak::none;
  };
  const char* end = text.data() + text.size();
  const char* word = text.data();
  for (const char* p = word; p < end;) {
    const DecodedChar c = decode_utf8(p, end);
    const BertBreak kind = break_of(c.value);
    if (kind == BertBreak::none) {
      p += c.length;
      continue;
    }
    if (word < p) emit(std::string_view(word, static_cast<std::size_t>(p - word)));
    if (kind == BertBreak::punctuation) emit(std::string_view(p, c.length));
    p += c.length;
    word = p;
  }
  if (word < end) emit(std::string_view(word, static_cast<std::size_t>(end - word)));
}

}  // namespace trireme
