// Added tokens: strings that become one id wherever they occur in a text, found leftmost first and
// of those the longest, before the rest of the text is split and encoded.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The fields of "added_tokens" in a tokenizer.json.
struct AddedToken {
  std::string content;
  std::int32_t id = -1;
  bool special = true;       // left out by decode(ids, skip_special)
  bool single_word = false;  // only between characters that do not belong to words
  bool lstrip = false;       // also takes the white space before it
  bool rstrip = false;       // and after it
  bool normalized = false;   // searched in the normalized text, in its own normalized form
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Empty contents are never found. Without `special_text` a special token that is spelled out
  // stays text.
  explicit AddedTokens(std::vector<AddedToken> tokens, bool special_text = true);

  // Cuts `text`: calls on_text for each stretch between tokens that is not empty and on_token for
  // each token, in order. Of a token whose place another took along as white space nothing is left.
  void cut(std::string_view text, const std::function<void(std::string_view)>& on_text,
           const std::function<void(const AddedToken&)>& on_token) const;

  bool empty() const { return tokens_.empty(); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  struct Found {
    std::size_t begin;
    std::size_t end;
    const AddedToken* token;
  };
  struct Node {
    std::vector<std::pair<unsigned char, std::int32_t>> next;
    std::int32_t token = -1;
  };
  std::optional<Found> find(std::string_view text, std::size_t from) const;
  std::size_t next_start(std::string_view text, std::size_t from) const;
  std::int32_t step(std::int32_t node, char byte) const;

  std::vector<AddedToken> tokens_;
  bool special_text_ = true;
  std::vector<Node> trie_;
  std::array<bool, 256> starts_{};  // bytes that begin a token
  int only_start_ = -1;             // the one such byte, if there is just one
};

}  // namespace trireme
