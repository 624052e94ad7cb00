// Fill-in-the-middle (Bavarian et al. 2022): some documents are rewritten so that a left-to-right
// model learns to write what belongs between two texts.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace trireme {

struct FillInMiddleOptions {
  double rate = 0;        // share of the documents that are rewritten; 0: off
  double spm_rate = 0.5;  // of these, share with the suffix first
  // Tokens that announce the parts.
  std::int32_t prefix_id = -1, middle_id = -1, suffix_id = -1;
};

// Immutable and thread-safe.
class FillInMiddle {
 public:
  // Throws bad_input for ids outside of the vocabulary and rates outside of [0, 1].
  FillInMiddle(const FillInMiddleOptions& options, std::shared_ptr<const Tokenizer> tokenizer);

  // Rewrites the documents (or parts of them) that a sample holds between its end-of-document
  // tokens. Each is cut at two random characters into prefix, middle and suffix, and becomes PRE
  // prefix SUF suffix MID middle, or PRE SUF suffix MID prefix middle. The result is cut to the
  // sample's length, or filled up with end-of-document tokens if it is shorter (special tokens in
  // the text are lost). Returns how many tokens precede the filling.
  std::int64_t apply(std::uint64_t seed, std::int64_t sample,
                     std::vector<std::int32_t>& tokens) const;

 private:
  FillInMiddleOptions options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace trireme
