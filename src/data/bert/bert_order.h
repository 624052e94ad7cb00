// Assignment of sentences to BERT samples: Megatron's sample mapping.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/split.h"

namespace trireme {

struct BertOrderRequest {
  Range documents;
  std::int64_t samples = -1;       // wanted at least, whole epochs are taken; -1: one epoch
  std::int32_t max_tokens = 0;     // of the sentences of a sample: seq_length - 3
  std::int32_t min_sentences = 2;  // 1 without the sentence-order head
  double short_seq_prob = 0.1;     // of a sample with a shorter target length
  std::uint32_t seed = 0;
};

// Sentences [first, first + count) and the number of tokens they shall be cut to.
struct BertSample {
  std::int64_t first;
  std::int32_t count;
  std::int32_t target;
};

// Walks the documents, epoch by epoch, and closes a sample when it has enough tokens and sentences
// and more than one sentence is left, or when the document ends; documents with a sentence of more
// than 512 tokens are left out. Then shuffles. Throws bad_input where no document gives a sample.
std::vector<BertSample> build_bert_order(const BertOrderRequest& request,
                                         const IndexedDataset& data);

// Key under which an order is kept: a hash of everything that determines it.
std::uint64_t bert_order_key(const BertOrderRequest& request, const IndexedDataset& data);

}  // namespace trireme
