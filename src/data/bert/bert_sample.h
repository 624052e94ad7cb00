// One BERT sample from its sentences: two segments, cut to length, with masked words.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/numpy_random.h"
#include "tokenizer/tokenizer.h"

namespace trireme {

// Properties of a WordPiece vocabulary that masking depends on.
struct BertVocabulary {
  std::int32_t cls = -1, sep = -1, mask = -1, pad = 0;
  std::vector<bool> continues;  // by id: whether the piece continues a word ("##ing")
  std::int32_t size() const { return static_cast<std::int32_t>(continues.size()); }
};

// Throws bad_input for a tokenizer without [CLS], [SEP] or [MASK].
BertVocabulary bert_vocabulary(const Tokenizer& tokenizer);

struct BertSampleOptions {
  double mask_prob = 0.15;  // share of the tokens to predict
  bool order_head = true;   // two segments, swapped in half of the samples
};

struct BertSampleResult {
  std::vector<std::int32_t> tokens;     // [CLS] A [SEP] B [SEP] with words masked; no padding
  std::vector<std::int32_t> segments;   // 0 or 1 for each token
  std::vector<std::int32_t> positions;  // of the masked tokens, ascending
  std::vector<std::int32_t> labels;     // original tokens
  bool swapped = false;                 // B precedes A in the text
};

// `sentences` are at least one, two with the order head. Draws from `random` exactly as Megatron
// does: masked are whole words, in runs of up to three with probability 1/n each; a masked token
// becomes [MASK] (80%), any token (10%) or stays (10%).
BertSampleResult make_bert_sample(const std::vector<std::vector<std::int32_t>>& sentences,
                                  std::int32_t target, const BertVocabulary& vocabulary,
                                  const BertSampleOptions& options, NumpyRandom& random);

}  // namespace trireme
