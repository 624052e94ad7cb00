// The pre-tokenizers of a tokenizer.json: they cut a text into the pieces that the model encodes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/json_place.h"
#include "tokenizer/split.h"

namespace trireme {

class PreTokenizer {
 public:
  // Receives a piece, and whether it lies at the very start of the text that was to be encoded.
  using Emit = std::function<void(std::string_view piece, bool first)>;

  virtual ~PreTokenizer() = default;
  // `text` is valid UTF-8 and not empty. A piece is valid during the call of `emit` only.
  virtual void cut(std::string_view text, bool first, const Emit& emit) const = 0;
};

// Makes a pre-tokenizer from its description; null makes none. Known types: Sequence, ByteLevel,
// Split, BertPreTokenizer, Metaspace, Whitespace, WhitespaceSplit, Digits, Punctuation. Errors: any
// other type.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonPlace& place);

// Whether it ends in ByteLevel, so that the model's vocabulary spells bytes.
bool is_byte_level(const JsonPlace& pre_tokenizer);

// The hand-written splitter that does the same, if there is one.
std::optional<SplitPattern> known_split(const JsonPlace& pre_tokenizer);

}  // namespace trireme
