// Rotary position embedding (Su et al. 2021): frequencies of the dimension pairs of a head.
#pragma once

#include <vector>

#include "config/config.h"

namespace trireme {

// Returns radians per position of each rotated pair, descending: rope_base^(-2i/d), scaled by
// model.rope_scaling for sequences longer than the original training length. `linear` divides all
// frequencies (Chen et al. 2023); `llama3` divides those with wavelengths long relative to
// rope_original_length, keeps short ones, and interpolates linearly between (Llama 3.1); `yarn`
// interpolates over pair indices (Peng et al. 2023, arXiv:2309.00071); `longrope` divides each by a
// number that depends on whether the sequence of `length` positions is longer than
// rope_original_length (Ding et al. 2024, arXiv:2402.13753).
std::vector<double> rotary_frequencies(const ModelConfig& model, std::int64_t length);

// Tables for sequences of all lengths have the rows of a position one after the other: one, or with
// `longrope` two, for short and for long sequences.
std::int64_t rotary_rows(const ModelConfig& model);
// The row for a position of a sequence of `length` positions.
std::int64_t rotary_row(const ModelConfig& model, std::int64_t position, std::int64_t length);

// Returns the model with the rotation of sliding-window layers, by model.rope_base_local.
ModelConfig with_local_rotation(ModelConfig model);

// Returns the factor on queries at a position (model.rope_query_beta).
double query_factor(const ModelConfig& model, std::int64_t position);
// The same in layers without RoPE (model.no_rope_query_beta).
double no_rope_query_factor(const ModelConfig& model, std::int64_t position);

}  // namespace trireme
