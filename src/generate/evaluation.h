// Loss of a trained model on text: per token and per byte.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "generate/trained_model.h"

namespace trireme {

struct EvaluationOptions {
  std::int64_t batch = 8;
  // Windows of the model's seq_length start every `stride` tokens; each token is scored once, in
  // the first window that holds it. 0: half a window, so that later tokens have at least that
  // context.
  std::int64_t stride = 0;
};

struct Evaluation {
  double nats = 0;          // summed over tokens
  std::int64_t tokens = 0;  // scored
  std::int64_t bytes = 0;   // of the text, as given by the caller

  double loss() const { return tokens ? nats / static_cast<double>(tokens) : 0; }
  double perplexity() const;
  double bits_per_byte() const;
};

// Scores ids[1 ...], each given the ids before it. `bytes` is the size of their text.
Evaluation evaluate_tokens(TrainedModel& model, const std::vector<std::int32_t>& ids,
                           std::int64_t bytes, const EvaluationOptions& options);

}  // namespace trireme
