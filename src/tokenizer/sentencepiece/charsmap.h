// The table by which SentencePiece normalizes a text: a trie of texts and what each becomes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace trireme {

class SentencePieceCharsmap {
 public:
  // Whether every place that a text can lead to lies inside the table; the library takes that on
  // trust. An empty table is sound and has no rules.
  static bool is_sound(std::string_view table);

  // `table` is sound and outlives this object.
  explicit SentencePieceCharsmap(std::string_view table);

  struct Rule {
    std::size_t length = 0;  // of the text that is replaced; 0: no rule applies
    std::string_view replacement;
  };
  // The rule for the longest prefix of `text` that has one.
  Rule find(std::string_view text) const;
  // Whether there may be a rule for a text of ASCII characters, without zeros, that begins with
  // `c`.
  bool rewrites_ascii(char c) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string_view replacements_;  // each ends with a zero byte
};

}  // namespace trireme
