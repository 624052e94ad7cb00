// Rotary positions (Su et al. 2021): how fast each pair of dimensions of a head turns.
#pragma once

#include <vector>

#include "config/config.h"

namespace trireme {

// Radians per position for each rotated pair, falling: rope_base^(-2i/d), scaled as
// model.rope_scaling says for sequences longer than those that the model first saw. `linear`
// divides all frequencies (Chen et al. 2023); `llama3` divides those whose waves are long against
// rope_original_length, leaves those that are short, and goes over linearly between (Llama 3.1);
// `yarn` does so from pair to pair (Peng et al. 2023, arXiv:2309.00071).
std::vector<double> rotary_frequencies(const ModelConfig& model);

// The model with the rotation that layers with the window have, by model.rope_base_local.
ModelConfig with_local_rotation(ModelConfig model);

// What queries at a position are multiplied by (model.rope_query_beta).
double query_factor(const ModelConfig& model, std::int64_t position);

// Factor on the rotary tables: 1, except for yarn.
double rotary_amplitude(const ModelConfig& model);

}  // namespace trireme
