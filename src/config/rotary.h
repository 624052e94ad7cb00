// Number of rotary dimensions per head.
#pragma once

#include <cstdint>

#include "config/config.h"

namespace trireme {

// Dimensions of each head that RoPE rotates.
std::int64_t rotary_dimensions(const ModelConfig& model);

}  // namespace trireme
