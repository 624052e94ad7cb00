// BPE over characters, as SentencePiece and Llama 2 have it: characters that the vocabulary lacks
// become tokens for their bytes, or the unknown token.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/vocabulary.h"

namespace trireme {

class CharBpe {
 public:
  struct Options {
    bool byte_fallback = false;  // an unknown character becomes <0x..> tokens, if all are there
    bool fuse_unknown = false;   // neighboring unknown characters become one token
    bool whole_pieces = false;   // a piece that is a token becomes it, whatever the merges say
    std::int32_t unknown = -1;   // -1: unknown characters are left out
    std::string prefix;          // of every character of a piece but the first
    std::string suffix;          // of the last character of a piece
  };

  CharBpe(Vocabulary vocabulary, MergeTable merges, Options options);

  // Appends the ids of one piece, valid UTF-8. The piece may be a whole text: it is encoded in
  // parts where no token can cross the borders between them.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::int32_t unknown() const { return options_.unknown; }

 private:
  void encode_part(std::string_view part, std::vector<std::int32_t>& ids) const;
  void append_part(std::string_view part, std::vector<std::int32_t>& ids) const;
  void append_merged(std::string_view part, std::vector<std::int32_t>& ids) const;
  bool append_bytes(std::string_view character, std::vector<std::int32_t>& ids) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  Options options_;
  std::array<std::int32_t, 256> byte_ids_;
  std::vector<bool> whole_;  // tokens that a part equal to them becomes
  bool cut_at_words_ = false;
  std::uint64_t serial_;
};

}  // namespace trireme
