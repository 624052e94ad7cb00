// Logits of given sequences, written as safetensors.
#pragma once

#include <cstdint>
#include <vector>

#include "generate/trained_model.h"

namespace trireme {

struct ScoredSequence {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> token_types;  // bert: 0 or 1 for each id; empty: all 0
};

// Writes one f32 tensor `logits.N` [tokens, vocabulary] per sequence N to `output`, and of a BERT
// with a sentence-order head `order_logits.N` [2].
void write_logits(TrainedModel& model, const std::vector<ScoredSequence>& sequences,
                  const fs::path& output);

}  // namespace trireme
