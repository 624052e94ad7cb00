// Next-token sampling: repetition penalty, temperature, top-k, top-p, draw. Pure functions of one
// row of fp32 logits, in the order and with the edge cases of Hugging Face's generation loop, so
// that the same settings give the same distribution.
#pragma once

#include <cstdint>
#include <span>

namespace trireme {

struct SamplingOptions {
  bool sample = true;            // false: greedy; only the penalty applies
  float temperature = 1;         // > 0
  std::int64_t top_k = 0;        // 0: off
  float top_p = 1;               // 1: off
  float repetition_penalty = 1;  // > 0; 1: off
};

// Refuses (fail_input) settings outside of the ranges above.
void validate(const SamplingOptions& options);

// Applies the penalty once per distinct token of `history` (prompt and output): positive logits are
// divided by it, negative ones multiplied. Tokens must be within the row.
void penalize_repetition(std::span<float> logits, std::span<const std::int32_t> history,
                         float penalty);

void apply_temperature(std::span<float> logits, float temperature);

// Sets all logits below the k-th largest to -infinity; ties with it stay.
void keep_top_k(std::span<float> logits, std::int64_t k);

// Drops the least likely tokens with a total probability of at most 1 - p; the most likely one
// always stays. Of equally likely tokens the lower id is dropped first.
void keep_top_p(std::span<float> logits, float p);

// Index of the largest logit, the first one on ties.
std::int32_t argmax(std::span<const float> logits);

// The token at which the cumulative probability exceeds `u` in [0, 1). Never a dropped one.
std::int32_t draw(std::span<const float> logits, double u);

// Runs the whole chain; overwrites `logits`. The draw depends only on (seed, sequence,
// position), not on the batch or the number of threads. A NaN logit is an error
// (fail).
std::int32_t next_token(std::span<float> logits, std::span<const std::int32_t> history,
                        const SamplingOptions& options, std::uint64_t seed, std::uint64_t sequence,
                        std::uint64_t position);

}  // namespace trireme
