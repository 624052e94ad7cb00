// The kinds of tiktoken files. Such a file has ranks only: how a text is cut before they count, and
// which special tokens follow them, is written in the programs that come with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/patterns/split.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace trireme {

struct TiktokenKind {
  std::string_view name;
  std::int32_t ranks;  // of the published file; 0: another kind's number, so the name must be given
  SplitPattern pattern;
  const char* regex;  // used instead of `pattern` if there is no hand-written splitter
  bool nfc;           // texts are brought into normal form C first
  // The special tokens of a file of `ranks` ranks.
  std::vector<AddedToken> (*special)(std::int32_t ranks);
  // By content; "": none.
  std::string_view end, begin;
  bool begins_texts;  // encode_with_special puts `begin` before a text
};

// The kind of the given name, or, where that is empty, the one that the ranks belong to. Errors: an
// unknown name; ranks of a number that no published file has, or that begin in another way than the
// published file does.
const TiktokenKind& tiktoken_kind(std::string_view name, const Vocabulary& ranks,
                                  const std::string& file);

// All names, for help texts.
std::string tiktoken_kind_names();

}  // namespace trireme
