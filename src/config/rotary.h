// How much of each head rotary positions turn.
#pragma once

#include <cstdint>

#include "config/config.h"

namespace trireme {

// Dimensions of each head that rotary positions turn.
std::int64_t rotary_dimensions(const ModelConfig& model);

}  // namespace trireme
