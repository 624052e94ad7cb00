// What RoPE does to a head.
#pragma once

#include <cstdint>

#include "config/config.h"

namespace trireme {

// Dimensions of each head that RoPE rotates.
std::int64_t rotary_dimensions(const ModelConfig& model);

// Factor on the rotated queries and keys: 1, except for yarn and longrope.
double rotary_amplitude(const ModelConfig& model);

}  // namespace trireme
