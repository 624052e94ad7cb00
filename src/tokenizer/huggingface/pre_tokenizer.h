// The pre-tokenizers of a tokenizer.json: they cut a text into the pieces that the model encodes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/json_place.h"
#include "tokenizer/patterns/regex.h"
#include "tokenizer/patterns/split.h"

namespace trireme {

class PreTokenizer {
 public:
  // Receives a piece, and how many bytes at its start come from the first character of the text
  // that was to be encoded (HfText).
  using Emit = std::function<void(std::string_view piece, std::size_t from_first)>;

  virtual ~PreTokenizer() = default;
  // `text` is valid UTF-8 and not empty. A piece is valid during the call of `emit` only.
  virtual void cut(std::string_view text, std::size_t from_first, const Emit& emit) const = 0;
};

// Makes a pre-tokenizer from its description; null makes none. Known types: Sequence, ByteLevel,
// Split, BertPreTokenizer, Metaspace, Whitespace, WhitespaceSplit, Digits, Punctuation,
// CharDelimiterSplit. With `spell` ByteLevel spells the bytes (byte_alphabet.h) as the reference
// does, otherwise it leaves them to a byte-level model. Errors: any other type.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonPlace& place, bool spell);

// Position of ByteLevel in a pre-tokenizer.
enum class ByteLevelPlace { nowhere, last, earlier };
ByteLevelPlace place_of_byte_level(const JsonPlace& pre_tokenizer);

// Whether a Metaspace that asks for the first character of the text comes after something that
// cuts.
bool cuts_before_first_metaspace(const JsonPlace& pre_tokenizer);

// The hand-written splitter that does the same without spelling, if there is one.
std::optional<SplitPattern> known_split(const JsonPlace& pre_tokenizer);

// The expressions of a pre-tokenizer that does nothing but to isolate the matches of each in turn,
// apart from spelling; empty for others.
std::vector<Regex> isolating_cuts(const JsonPlace& pre_tokenizer);

}  // namespace trireme
