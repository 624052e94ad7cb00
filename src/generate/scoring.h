// Writes the logits of given sequences as safetensors.
#pragma once

#include <cstdint>
#include <vector>

#include "generate/scorer.h"

namespace trireme {

// Writes one f32 tensor `logits.N` [tokens, vocabulary] per sequence N to `output`, and for a BERT
// with a sentence-order head `order_logits.N` [2].
void write_logits(TrainedModel& model, const std::vector<ScoredSequence>& sequences,
                  const fs::path& output);

}  // namespace trireme
