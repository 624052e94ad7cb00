// An encoder for SentencePiece unigram models whose ids no version of the library decides.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/patterns/prefix_set.h"
#include "tokenizer/sentencepiece/normalizer.h"
#include "tokenizer/sentencepiece/output.h"
#include "tokenizer/sentencepiece/proto.h"

namespace trireme {

// The pieces of the highest total score. Totals are kept in fp32 from the beginning of the text
// on, so that they are equal, or rounded to the same number, for many ways to split a long text;
// which of these is taken is part of the ids. Versions 0.1.97 to 0.2.1 of the library compare a new
// total in fp64 with a kept one, but that of an unknown character in fp32; 0.2.3 compares all in
// fp32. This is the former.
class SentencePieceUnigram {
 public:
  // Null where these versions are not certain to give the same ids: the model is of another kind,
  // has ill-formed pieces, pieces spelled like a control symbol, or scores that are not finite. The
  // bytes of `model` outlive the encoder.
  static std::unique_ptr<SentencePieceUnigram> make(const SentencePieceProto& model);

  // Appends the ids of `text`.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;

 private:
  explicit SentencePieceUnigram(const SentencePieceProto& model);

  SentencePieceNormalizer normalizer_;
  SentencePieceFallback fallback_;
  PrefixSet pieces_;            // with their ids
  std::vector<double> scores_;  // by id
  float unknown_score_ = 0;
};

}  // namespace trireme
