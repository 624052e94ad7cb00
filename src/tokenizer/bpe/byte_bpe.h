// Byte-level BPE: splits a text into pieces and each piece into tokens of a vocabulary of byte
// strings.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/patterns/regex.h"
#include "tokenizer/patterns/split.h"
#include "tokenizer/vocabulary.h"

namespace trireme {

class ByteBpe {
 public:
  // With `whole_pieces` a piece that is a token becomes that token even if the merges would not
  // make it (tiktoken; "ignore_merges" of tokenizer.json). Bytes without a token are left out, as
  // the reference does.
  ByteBpe(Vocabulary vocabulary, MergeTable merges, bool whole_pieces);

  // Appends the ids of a text that holds no special tokens.
  void encode(SplitPattern pattern, std::string_view text, std::vector<std::int32_t>& ids) const;

  // The same for a text, valid UTF-8, that the first expression cuts into its matches and what is
  // between them, the second these, and so on.
  void encode(std::span<const Regex> cuts, std::string_view text,
              std::vector<std::int32_t>& ids) const;

  // Appends the ids of one piece.
  void encode_piece(std::string_view piece, std::vector<std::int32_t>& ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  template <class Cut>
  void encode_pieces(std::string_view text, std::vector<std::int32_t>& ids, Cut&& cut) const;
  std::size_t merge_bytes(std::string_view piece, std::int32_t* ids) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  std::array<std::int32_t, 256> byte_ids_;
  std::vector<bool> whole_;  // tokens that a piece equal to them becomes
  std::uint64_t serial_;
};

// The merges of a tiktoken vocabulary, whose ids are 0 .. size-1 and their own ranks: any two
// tokens whose bytes together are a token may merge. Only one of the ways to make a token can
// occur: the bytes between two borders that no merge has crossed merge as they would in isolation,
// in the same order, so the last step is always the same. Keeping only that one makes the table
// several times smaller.
MergeTable merges_of_ranks(const Vocabulary& ranks);

}  // namespace trireme
