// A fast encoder for SentencePiece BPE models that gives the ids of the library.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/bpe/bpe.h"
#include "tokenizer/bpe/piece_cache.h"
#include "tokenizer/patterns/prefix_set.h"
#include "tokenizer/sentencepiece/normalizer.h"
#include "tokenizer/sentencepiece/output.h"
#include "tokenizer/sentencepiece/proto.h"
#include "tokenizer/vocabulary.h"

namespace trireme {

// The library merges, over the whole text, the pair of symbols whose piece has the highest score
// and of equal scores the leftmost. Here pieces are looked up as pairs of symbols in a table, the
// text is encoded in words where no piece reaches from one into the next, and words are remembered.
class SentencePieceBpe {
 public:
  // Null where equality with the library is not certain: the model is of another kind, has unused
  // pieces (which the library splits again by what it saw elsewhere in the text), pieces that are
  // ill-formed, pieces spelled like a control symbol, or scores that are NaN. The bytes of
  // `model` outlive the encoder.
  static std::unique_ptr<SentencePieceBpe> make(const SentencePieceProto& model);

  // Appends the ids of `text`, as the library's Encode gives them.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;

 private:
  using WordEnd = std::size_t (*)(std::string_view);

  explicit SentencePieceBpe(const SentencePieceProto& model);
  void add_merges(const SentencePieceProto& model);
  void choose_words(const SentencePieceProto& model);
  std::int32_t add_symbol(std::string_view text);

  void encode_stretch(std::string_view stretch, PieceCache& cache,
                      SentencePieceOutput& output) const;
  void merge_word(std::string_view word, SentencePieceOutput& output) const;
  std::string_view take_word(std::string_view& stretch) const;
  std::int32_t symbol_of(std::string_view character) const;

  SentencePieceNormalizer normalizer_;
  SentencePieceFallback fallback_;
  // Normal and user-defined pieces with the model's ids, then the characters that appear only
  // inside longer pieces.
  Vocabulary symbols_;
  std::vector<bool> whole_;  // by id: whether a word equal to the piece becomes it
  MergeTable merges_;
  std::array<std::int32_t, 128> ascii_;  // symbols of one byte, or -1
  std::int32_t pieces_ = 0;              // symbols below this are pieces
  WordEnd word_end_ = nullptr;           // where the first word of a text ends
  PrefixSet crossing_;                   // the pieces that reach from a word into the next
  std::uint64_t serial_;
};

}  // namespace trireme
