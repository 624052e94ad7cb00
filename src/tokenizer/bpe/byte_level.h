// Tokenizers over bytes: GPT-2's vocab.json with merges.txt, and tiktoken files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe/byte_bpe.h"
#include "tokenizer/patterns/regex.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Parts of a byte-level tokenizer.
struct ByteLevelParts {
  ByteBpe bpe;
  SplitPattern pattern = SplitPattern::gpt2;
  // Instead of `pattern`, where that has no hand-written form; its matches are all of any text.
  std::optional<Regex> regex;
  bool nfc = false;  // texts are brought into normal form C first
  // Special tokens, by content and id; their ids may lie in the vocabulary or beyond it.
  std::vector<AddedToken> added;
  bool special_text = true;
  SpecialIds special;
  // Put before each text by encode_with_special, -1 for none.
  std::int32_t prefix = -1;
  std::uint64_t fingerprint = 0;
};

class ByteLevelTokenizer : public Tokenizer {
 public:
  explicit ByteLevelTokenizer(ByteLevelParts parts);

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  Encoding encode_with_special(std::string_view text,
                               std::optional<std::string_view> pair) const override;
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override;
  std::string token_bytes(std::int32_t id) const override;
  std::int32_t token_id(std::string_view bytes) const override;

 private:
  const AddedToken* added_token(std::int32_t id) const;
  void encode_plain(std::string_view text, std::vector<std::int32_t>& ids) const;

  ByteBpe bpe_;
  SplitPattern pattern_;
  std::optional<Regex> regex_;
  bool nfc_;
  AddedTokens added_;
  std::vector<std::int32_t> added_by_id_;  // index into added_.tokens(), -1: an ordinary token
  bool special_text_;
  std::int32_t prefix_;
};

// GPT-2 from vocab.json and merges.txt. EOD is <|endoftext|>, which is required.
std::unique_ptr<Tokenizer> load_gpt2(const std::string& vocab_file, const std::string& merge_file,
                                     bool special_text);

// A file of lines "base64-of-token rank". `pattern` names its kind (tiktoken_kinds.h); empty: the
// ranks tell, or it is refused.
std::unique_ptr<Tokenizer> load_tiktoken(const std::string& model_file, const std::string& pattern,
                                         bool special_text);

}  // namespace trireme
