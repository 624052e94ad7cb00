// SentencePiece's normalisation: rules of the model's table, user-defined symbols kept as they are,
// and its treatment of spaces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tokenizer/sentencepiece_charsmap.h"
#include "tokenizer/sentencepiece_proto.h"

namespace trireme {

// Length in bytes of the character that begins with `lead`, as SentencePiece counts them; what
// follows may be cut off or ill-formed.
inline std::size_t sentencepiece_char_length(char lead) {
  constexpr char lengths[] = "\1\1\1\1\1\1\1\1\1\1\1\1\2\2\3\4";
  return static_cast<std::size_t>(lengths[static_cast<unsigned char>(lead) >> 4]);
}

// Texts of which the longest that a text begins with is found.
class PrefixSet {
 public:
  void add(std::string_view text);
  bool empty() const { return nodes_.empty(); }
  // Length of the longest member that `text` begins with, or 0.
  std::size_t longest_prefix(std::string_view text) const;

 private:
  struct Node {
    std::uint32_t number = 0;
    bool ends = false;  // a member ends here
  };
  static std::uint64_t key(std::uint32_t node, char byte) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
  }
  std::unordered_map<std::uint64_t, Node> nodes_;  // by parent (the root is 0) and byte
  bool begins_[256] = {};                          // with which bytes members begin
};

class SentencePieceNormalizer {
 public:
  // The bytes of `model` outlive this object.
  explicit SentencePieceNormalizer(const SentencePieceProto& model);

  // Replaces `out` by the normal form of `text`.
  void apply(std::string_view text, std::string& out) const;

  const PrefixSet& user_defined() const { return user_defined_; }

 private:
  struct Step {
    std::string_view text;
    std::size_t consumed;
  };
  Step next(std::string_view text) const;

  SentencePieceCharsmap charsmap_;
  PrefixSet user_defined_;
  std::string_view space_;
  bool prefix_, suffix_;  // whether a space is added there
  bool remove_extra_;
};

}  // namespace trireme
