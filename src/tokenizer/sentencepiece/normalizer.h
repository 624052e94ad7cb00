// SentencePiece's normalization: rules of the model's table, user-defined symbols kept as they are,
// and its treatment of spaces.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "tokenizer/patterns/prefix_set.h"
#include "tokenizer/sentencepiece/charsmap.h"
#include "tokenizer/sentencepiece/proto.h"

namespace trireme {

// Length in bytes of the character that begins with `lead`, as SentencePiece counts them; what
// follows may be cut off or ill-formed.
inline std::size_t sentencepiece_char_length(char lead) {
  constexpr char lengths[] = "\1\1\1\1\1\1\1\1\1\1\1\1\2\2\3\4";
  return static_cast<std::size_t>(lengths[static_cast<unsigned char>(lead) >> 4]);
}

class SentencePieceNormalizer {
 public:
  // The bytes of `model` outlive this object.
  explicit SentencePieceNormalizer(const SentencePieceProto& model);

  // Replaces `out` by the normal form of `text`.
  void apply(std::string_view text, std::string& out) const;

  // With the ids of the pieces.
  const PrefixSet& user_defined() const { return user_defined_; }

 private:
  struct Step {
    std::string_view text;
    std::size_t consumed;
  };
  Step next(std::string_view text) const;
  // Whether the character at `at` certainly stays what it is.
  bool is_plain(std::string_view text, std::size_t at) const {
    const auto is_ascii = [](char byte) { return byte > 0 && byte < 0x7F; };
    return is_ascii(text[at]) && plain_[static_cast<unsigned char>(text[at])] &&
           (at + 1 == text.size() || is_ascii(text[at + 1]));
  }

  SentencePieceCharsmap charsmap_;
  PrefixSet user_defined_;
  // The ASCII characters that begin no user-defined symbol and no rule that a text of ASCII
  // characters could match.
  std::array<bool, 128> plain_{};
  std::string_view space_;
  bool prefix_, suffix_;  // whether a space is added there
  bool remove_extra_;
};

}  // namespace trireme
