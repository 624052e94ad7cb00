// WordPiece: each word becomes the longest token that begins it, then the longest that continues
// it, and so on; a word that cannot be spelled is one unknown token.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace trireme {

class WordPiece {
 public:
  struct Options {
    std::string unknown = "[UNK]";
    std::string prefix = "##";         // of tokens that continue a word
    std::size_t max_characters = 100;  // longer words are unknown
  };

  // Errors: a vocabulary without the unknown token is bad input; `file` goes into the message.
  WordPiece(Vocabulary vocabulary, Options options, const std::string& file);

  // Appends the ids of one word, valid UTF-8.
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::int32_t unknown() const { return unknown_; }

 private:
  void append(std::string_view word, std::vector<std::int32_t>& ids) const;
  bool spell(std::string_view word, std::vector<std::int32_t>& ids) const;

  Vocabulary vocabulary_;
  Options options_;
  std::int32_t unknown_;
  std::uint64_t serial_;
};

// Joins the tokens of a text: those that begin with `prefix` to the token before, the others with a
// space. With `clean_up` the spaces before English punctuation and contractions go.
std::string join_wordpieces(std::span<const std::string> tokens, std::string_view prefix,
                            bool clean_up);

// Removes spaces before punctuation and English contractions, as the reference decoder does.
void clean_up_spaces(std::string& text);

}  // namespace trireme
