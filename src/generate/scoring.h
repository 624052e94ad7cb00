// Logits of given sequences, written as safetensors.
#pragma once

#include <cstdint>
#include <vector>

#include "generate/trained_model.h"

namespace trireme {

// Writes one f32 tensor `logits.N` [tokens, vocabulary] per sequence N to `output`.
void write_logits(TrainedModel& model, const std::vector<std::vector<std::int32_t>>& sequences,
                  const fs::path& output);

}  // namespace trireme
