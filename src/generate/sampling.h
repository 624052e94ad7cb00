// From the scores of the next token to a token: penalty, temperature, top-k, top-p, draw. Pure
// functions on one row of fp32 logits, in the order and with the borders of the Hugging Face
// generation loop, so that the same settings mean the same distribution.
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

// Each distinct token of `history` (prompt and output) once: a positive score is divided by the
// penalty, a negative one multiplied. Tokens must lie inside the row.
void penalize_repetition(std::span<float> logits, std::span<const std::int32_t> history,
                         float penalty);

void apply_temperature(std::span<float> logits, float temperature);

// Drops (sets to -infinity) all logits below the k-th largest; those equal to it stay.
void keep_top_k(std::span<float> logits, std::int64_t k);

// Drops the least likely whose probabilities together are at most 1 - p; the likeliest always
// stays. Among equals the lower token is dropped first.
void keep_top_p(std::span<float> logits, float p);

// The largest, the first among equals.
std::int32_t argmax(std::span<const float> logits);

// The token at which the cumulative probability exceeds `u` in [0, 1). Never one that was dropped.
std::int32_t draw(std::span<const float> logits, double u);

// The whole chain; `logits` is overwritten. The draw is a function of nothing but (seed, sequence,
// position): neither the batch nor the number of threads changes it. A logit that is NaN is an
// error (fail).
std::int32_t next_token(std::span<float> logits, std::span<const std::int32_t> history,
                        const SamplingOptions& options, std::uint64_t seed, std::uint64_t sequence,
                        std::uint64_t position);

}  // namespace trireme
